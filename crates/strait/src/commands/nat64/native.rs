//! `up --target native`: a translator in this process, in the foreground.

use serde_json::json;
use translator::native::{Ended, Options, translate};
use translator::up::Up;

use super::log;
use crate::cli::UpArgs;

/// Translates until it is interrupted.
pub fn up(args: &UpArgs) -> anyhow::Result<()> {
    let (apply, json) = (&args.apply, args.apply.of.json);
    let workers = args.workers.unwrap_or(1);
    let options = Options { file: apply.of.config.clone(), force: apply.force, workers };
    let ended = translate(&options, &log::plain(), &mut |up: &Up| match json {
        true => println!("{}", json!({"device": up.device, "up": true})),
        false => println!("{} is up: {}; Ctrl-C ends it", up.device, up.described()),
    })?;
    print(json, &ended);
    ended.broken.map_or(Ok(()), |error| Err(error.into()))
}

/// Prints the counters at the end.
fn print(json: bool, ended: &Ended) {
    let Ended { device, received, sent, drops, .. } = ended;
    if json {
        let drops: serde_json::Map<_, _> =
            drops.iter().map(|(name, n)| (name.clone(), (*n).into())).collect();
        println!(
            "{}",
            json!({"device": device, "up": false, "received": received, "sent": sent, "drops": drops})
        );
        return;
    }
    println!("{device} is down: {received} packets came, {sent} left");
    for (reason, packets) in drops.iter().filter(|(_, packets)| *packets > 0) {
        println!("  dropped {packets:>10}  {reason}");
    }
}
