//! The explanations of all diagnostics, each with an example: one file in `diagnostics/` for each code. `strait explain
//! CODE` shows them, and the manual's page is generated from them.

/// The explanations, in the order of their codes.
macro_rules! catalogue {
    ($($code:ident)*) => {
        &[$((stringify!($code), include_str!(concat!("../diagnostics/", stringify!($code), ".md")))),*]
    };
}

const ALL: &[(&str, &str)] = catalogue! {
    E0001 E0002 E0003 E0004 E0005 E0006 E0007 E0008 E0009 E0101 E0102 E0103 E0104 E0105 E0110 E0111 E0112 E0113 E0114
    E0115 E0116 E0117 E0118 E0119 E0120 E0121 E0122 E0123 E0124 E0125 E0126 E0127 E0201 E0202 E0203 E0204 E0205
    E0206 E0207 E0300 E0301 E0302 E0303 E0304 E0305 E0306 E0307 E0308 E0309 E0310 E0311 E0312 E0313 E0314
    E0315 E0316 E0317 E0318 E0401 E0402 E0403 E0404 E0405 E0406 E0407 E0408 E0409 E0410 E0411 E0412 E0413 E0414
    E0415 E0416 E0417 E0418 E0419 E0421 E0502 E0510 E0511 E0512 E0513 E0514 E0515 E0516 E0517 E0518 E0519 E0520 E0521 E0522 E0523 E0524 E0525 E0526 E0527 E0528 E0529 E0551 E0552 E0553 E0599 W0001 W0002 W0301 W0401 W0402 W0407 W0419 W0420 W0501 W0502 W0601
    W0602 W0603 W0604 W0605 W0606
};

/// The explanation of a code such as `E0301`, in Markdown.
pub fn explain(code: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(code)).map(|(_, text)| *text)
}

/// All codes, in order.
pub fn codes() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(code, _)| *code)
}

/// The manual's page, with all explanations.
pub fn page() -> String {
    let mut page = String::from(
        "# Diagnostics\n\nWhat the compiler has to say, by code; `strait explain CODE` shows one of them. E is an error, W a warning. Warnings\n\
         are silenced with `--allow CODE`; those from W0601 on have names, too, for `--allow` and for `@noWarn(\"name\")` before a\n\
         declaration. This page is made of `crates/p4/diagnostics/` by `cargo xtask diagnostics`.\n",
    );
    for (_, text) in ALL {
        let mut lines = text.lines();
        page += "\n#";
        page += lines.next().unwrap_or_default();
        page.push('\n');
        for line in lines {
            page += if line.starts_with("## ") { "##" } else { "" };
            page += line;
            page.push('\n');
        }
    }
    page
}
