//! `up` and `reload`: the machine translates as a file says.

use serde_json::json;
use translator::File;

use super::log;
use crate::cli::ApplyArgs;

/// Starts a translator, or makes a running one follow its file.
pub fn up(args: &ApplyArgs) -> anyhow::Result<()> {
    let up = translator::up::up(&File::read(&args.of.config)?, args.force, &log::plain())?;
    match args.of.json {
        true => println!("{}", json!({"device": up.device, "up": true})),
        false => println!("{} is up: {}", up.device, up.described()),
    }
    Ok(())
}
