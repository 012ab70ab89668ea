//! `import`: adds what `export` has written.

use anyhow::Context;
use translator::transfer;

use super::select;
use crate::cli::ImportArgs;

/// Adds the bindings and sessions of a file, or of the standard input.
pub fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let select = select(&args.of);
    let imported = match args.file.to_str() {
        Some("-") => transfer::import(&select, "standard input", std::io::stdin())?,
        _ => {
            let name = args.file.display().to_string();
            let file = std::fs::File::open(&args.file).with_context(|| format!("cannot read {name}"))?;
            transfer::import(&select, &name, file)?
        }
    };
    match args.of.json {
        true => println!("{}", serde_json::to_string(&imported)?),
        false => println!(
            "{}: {} bindings and {} sessions are added; {} were known, {} are not allowed by the file, {} are too old or without a binding",
            imported.device,
            imported.bindings,
            imported.sessions,
            imported.known,
            imported.refused,
            imported.dead
        ),
    }
    Ok(())
}
