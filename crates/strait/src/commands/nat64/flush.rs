//! `flush`: removes bindings and sessions.

use nat64::flows::Filter;
use translator::flows;

use super::filter::filter;
use super::select;
use crate::cli::FlushArgs;

/// Removes what a filter selects, or everything.
pub fn flush(args: &FlushArgs) -> anyhow::Result<()> {
    let filter = filter(&args.filter)?;
    anyhow::ensure!(
        args.all != (filter != Filter::default()),
        "name what is removed by filters such as `--host`, or everything by `--all`, and not both"
    );
    let flushed = flows::flush(&select(&args.of), &filter)?;
    match args.of.json {
        true => println!("{}", serde_json::to_string(&flushed)?),
        false => println!(
            "{}: {} bindings and {} sessions are removed",
            flushed.device, flushed.bindings, flushed.sessions
        ),
    }
    Ok(())
}
