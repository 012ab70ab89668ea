//! `strait explain`: prints the explanation of a diagnostic.

use std::process::ExitCode;

/// Prints the explanation of a code, or a list of all codes.
pub fn run(code: Option<&str>) -> anyhow::Result<ExitCode> {
    let Some(code) = code else {
        for code in p4::explain::codes() {
            let text = p4::explain::explain(code).unwrap_or_default();
            println!("{}", text.lines().next().unwrap_or_default().trim_start_matches("# "));
        }
        return Ok(ExitCode::SUCCESS);
    };
    match p4::explain::explain(code) {
        Some(text) => {
            print!("{text}");
            Ok(ExitCode::SUCCESS)
        }
        None => anyhow::bail!("there is no diagnostic `{code}`; `strait explain` lists them all"),
    }
}
