//! `down`: removes what `up` made, and nothing else.

use serde_json::json;

use super::{log, select};
use crate::cli::SelectArgs;

/// Removes the translators that the arguments mean.
pub fn down(args: &SelectArgs) -> anyhow::Result<()> {
    translator::down::down(&select(args), &log::plain(), &mut |device| match args.json {
        true => println!("{}", json!({"device": device, "up": false})),
        false => println!("{device} is down"),
    })
}
