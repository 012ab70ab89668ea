//! `sessions`: a line each, or an object each.

use translator::flows::{self, SessionRow};

use super::filter::{Lines, filter};
use super::select;
use crate::cli::FlowArgs;

/// Prints the sessions that the filter selects, or their number.
pub fn sessions(args: &FlowArgs) -> anyhow::Result<()> {
    let (filter, mut lines) = (filter(&args.filter)?, Lines::default());
    flows::sessions(&select(&args.of), &filter, &mut |session| {
        lines.add(args, || match args.of.json {
            true => Ok(serde_json::to_string(&session)?),
            false => Ok(line(&session)),
        })
    })?;
    lines.end(args);
    Ok(())
}

fn line(session: &SessionRow) -> String {
    let SessionRow { protocol, host, address, remote, state, expires } = session;
    let left = expires.map_or("-".to_string(), |left| format!("{left} s"));
    format!("{protocol:<4} {host} > {address} > {remote} {state} {left}")
}
