//! Emits a P4 program for tc. Writes the C to standard output, and the manifest to the file in the second argument.
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("a program");
    let text = std::fs::read_to_string(&file).expect("readable");
    let mut map = p4::SourceMap::default();
    let mut d = p4::Diagnostics::default();
    let program = p4::compile(&mut map, &file, &text, &[], &p4::Embedded, &mut d).expect("compiles");
    match emit::tc(&program) {
        Ok(out) => {
            print!("{}", out.c);
            if let Some(path) = args.next() {
                std::fs::write(path, serde_json::to_string_pretty(&out.manifest).expect("json"))
                    .expect("written");
            }
        }
        Err(problems) => {
            problems.iter().for_each(|p| eprintln!("{}: {p}", program.place(p.loc).unwrap_or_default()))
        }
    }
}
