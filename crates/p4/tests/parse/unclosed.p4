control c() {
    apply {
        x = 1;
    // The brace of `apply` is missing.
}
// error@5: expected `}`, found the end of the file
