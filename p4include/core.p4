// The P4-16 core library (P4-16 specification, appendix "P4 core library"), in
// Strait's own words: what every architecture may rely on.

#ifndef _CORE_P4_
#define _CORE_P4_

// What a parser may fail with. A program may declare more; all share one space.
error {
    NoError,                // the value before anything went wrong
    PacketTooShort,         // extract, lookahead or advance beyond the packet's end
    NoMatch,                // a select without a matching case
    StackOutOfBounds,       // .next or .last outside a header stack
    HeaderTooShort,         // a varbit field longer than its maximum
    ParserTimeout,          // the parser took more steps than the target allows
    ParserInvalidArgument   // a length the target does not support
}

// The packet as the parser sees it: bytes and a cursor.
extern packet_in {
    // Fills a header of fixed size, makes it valid and moves the cursor past it.
    void extract<T>(out T hdr);
    // The same for a header with one varbit field, whose size in bits is given.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Reads a value of type T at the cursor, which stays.
    T lookahead<T>();
    // Moves the cursor without reading.
    void advance(in bit<32> sizeInBits);
    // The packet's length in bytes. Not every target knows it.
    bit<32> length();
}

// The packet as the deparser writes it.
extern packet_out {
    // Appends a header if it is valid; structs, stacks and unions part by part.
    void emit<T>(in T hdr);
}

// Ends the parser in `reject` with the given error unless the condition holds.
extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,      // all bits are equal
    ternary,    // the bits under a mask are equal
    lpm         // the longest matching prefix wins
}

// Checked by the compiler; false is a compile-time error with the message.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
