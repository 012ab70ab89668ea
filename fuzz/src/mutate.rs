//! Changes to a program that mostly leave it a program: tokens are replaced by tokens of their kind, balanced groups and whole
//! statements are dropped, doubled, moved and swapped. libFuzzer's own changes reach the lexer's corners; these reach the checker's.

use fastrand::Rng;

/// A token and the white space before it, as written.
type Piece<'a> = &'a str;

/// Numbers at which things go wrong.
const NUMBERS: &[&str] = &[
    "0", "1", "8", "31", "32", "33", "64", "128", "2048", "65536", "1w1", "8w255", "8s127", "-8s128", "32w0xffffffff",
    "128w0", "0x7fffffffffffffffffff", "4294967296", "18446744073709551616",
];
const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "%", "|+|", "|-|", "&", "|", "^", "<<", ">>", "==", "!=", "<", ">", "<=", ">=", "&&", "||",
    "++", "&&&", "..", "?", "=", "+=", "<<=",
];
const WORDS: &[&str] = &[
    "bit", "int", "bool", "varbit", "string", "error", "in", "out", "inout", "this", "default", "_", "const", "void",
    "true", "tuple", "list", "exit", "return", "break", "continue", "apply", "isValid", "setValid", "setInvalid", "next",
    "last", "lastIndex", "size", "hit", "miss", "action_run", "extract", "emit", "advance", "lookahead", "length",
    "push_front", "pop_front", "minSizeInBits", "transition", "select", "accept", "reject", "key", "actions", "entries",
    "exact", "lpm", "ternary", "range", "optional", "selector", "size", "default_action", "implementation",
];
/// Whole constructs, put where a statement ends.
const STATEMENTS: &[&str] = &[
    "if (true) { exit; } else { return; }",
    "for (bit<8> i = 0; i < 8; i += 1) { break; }",
    "for (bit<8> i in 1..8) { continue; }",
    "switch (8w1) { 1: {} default: { exit; } }",
    "bit<8> v = 1; v[3:0] = 2;",
    "header H { bit<8> a; varbit<16> b; }",
    "header_union U { H a; H b; }",
    "struct S<T> { T a; bit<3> b; }",
    "enum bit<8> E { A = 1, B = 2 }",
    "type bit<9> N;",
    "const tuple<bit<8>, bool> T = { 1, true };",
    "action act(bit<8> a) { }",
    "value_set<bit<8>>(4) vs;",
    "@name(\"x\") @a[k=1]",
];

/// Tokens, each with the white space before it. Lines of the preprocessor are one piece.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let begin = at;
        while at < bytes.len() && bytes[at].is_ascii_whitespace() {
            at += 1;
        }
        at = end_of(text, at);
        out.push(&text[begin..at]);
    }
    out
}

/// Where the token that begins at `at` ends.
fn end_of(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let run = |set: fn(char) -> bool| at + rest.find(|c| !set(c)).unwrap_or(rest.len());
    match rest.chars().next() {
        None => at,
        Some('#') => at + rest.find('\n').unwrap_or(rest.len()),
        Some('"') => at + 1 + rest[1..].find('"').map_or(rest.len() - 1, |n| n + 1),
        Some(c) if c.is_alphanumeric() || c == '_' => run(|c| c.is_alphanumeric() || c == '_'),
        Some('(' | ')' | '{' | '}' | '[' | ']' | ';' | ',') => at + 1,
        Some(c) if c.is_ascii_punctuation() => {
            at + OPERATORS.iter().map(|o| o.len()).filter(|n| rest.get(..*n).is_some_and(|o| OPERATORS.contains(&o))).max().unwrap_or(1)
        }
        Some(c) => at + c.len_utf8(),
    }
}

/// The group that begins at `at`: to the bracket's partner, or to the end of the statement.
fn group(pieces: &[Piece<'_>], at: usize) -> usize {
    let mut depth = 0usize;
    for (n, piece) in pieces[at..].iter().enumerate() {
        match piece.trim_start() {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" if depth <= 1 => return at + n + 1,
            ")" | "}" | "]" => depth -= 1,
            ";" if depth == 0 => return at + n + 1,
            _ => {}
        }
    }
    pieces.len()
}

fn is_word(piece: &str) -> bool {
    piece.trim_start().starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn is_number(piece: &str) -> bool {
    piece.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// One text from one or two: a few changes, no longer than `most` bytes.
pub fn mutate(text: &str, other: Option<&str>, most: usize, seed: u32) -> String {
    let mut rng = Rng::with_seed(seed.into());
    let mut list: Vec<String> = pieces(text).into_iter().map(str::to_string).collect();
    let other: Vec<String> = other.map(pieces).unwrap_or_default().into_iter().map(str::to_string).collect();
    for _ in 0..rng.usize(1..=4) {
        if list.is_empty() {
            list.push(rng.choice(STATEMENTS).unwrap().to_string());
        }
        change(&mut list, &other, &mut rng);
    }
    let mut out = String::new();
    for piece in list {
        if out.len() + piece.len() > most {
            break;
        }
        out.push_str(&piece);
    }
    out
}

fn change(list: &mut Vec<String>, other: &[String], rng: &mut Rng) {
    let at = rng.usize(..list.len());
    let end = |list: &[String], at: usize| group(&list.iter().map(String::as_str).collect::<Vec<_>>(), at);
    match rng.u8(..9) {
        // A token becomes another of its kind: one of the program's, or one of the language's.
        0..=3 => list[at] = replacement(list, at, rng),
        4 => {
            let end = end(list, at);
            list.drain(at..end);
        }
        5 => {
            let copy = list[at..end(list, at)].to_vec();
            let to = rng.usize(..=list.len());
            list.splice(to..to, copy);
        }
        6 => {
            let b = rng.usize(..list.len());
            let (a, b) = (at.min(b), at.max(b));
            let (a_end, b_end) = (end(list, a), end(list, b));
            if a_end <= b {
                let first: Vec<_> = list[a..a_end].to_vec();
                let second: Vec<_> = list.splice(b..b_end, first).collect();
                list.splice(a..a_end, second);
            }
        }
        7 => {
            let to = list[at..].iter().position(|p| matches!(p.trim_start(), ";" | "}" | "{")).map_or(at, |n| at + n + 1);
            list.insert(to, format!("\n{}", rng.choice(STATEMENTS).unwrap()));
        }
        _ if !other.is_empty() => {
            let from = rng.usize(..other.len());
            let copy = other[from..end(other, from)].to_vec();
            let to = end(list, at);
            list.splice(at..to, copy);
        }
        _ => {}
    }
}

fn replacement(list: &[String], at: usize, rng: &mut Rng) -> String {
    let own = |kind: fn(&str) -> bool, rng: &mut Rng| {
        let same: Vec<_> = list.iter().filter(|p| kind(p)).collect();
        rng.choice(same).cloned()
    };
    let piece = &list[at];
    let new = if is_word(piece) {
        if rng.u8(..4) == 0 { rng.choice(WORDS).map(|w| w.to_string()) } else { own(is_word, rng) }
    } else if is_number(piece) {
        if rng.bool() { rng.choice(NUMBERS).map(|n| n.to_string()) } else { own(is_number, rng) }
    } else {
        rng.choice(OPERATORS).map(|o| o.to_string())
    };
    format!(" {}", new.as_deref().unwrap_or("0").trim_start())
}
