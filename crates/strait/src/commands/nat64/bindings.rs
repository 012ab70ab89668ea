//! `bindings`: a line each, or an object each.

use translator::flows::{self, BindingRow};

use super::filter::{Lines, filter};
use super::select;
use crate::cli::FlowArgs;

/// Prints the bindings that the filter selects, or their number.
pub fn bindings(args: &FlowArgs) -> anyhow::Result<()> {
    let (filter, mut lines) = (filter(&args.filter)?, Lines::default());
    anyhow::ensure!(
        filter.is_of_bindings(),
        "--remote, --remote-port and --state are of sessions, and a binding has many"
    );
    flows::bindings(&select(&args.of), &filter, &mut |binding| {
        lines.add(args, || match args.of.json {
            true => Ok(serde_json::to_string(&binding)?),
            false => Ok(line(&binding)),
        })
    })?;
    lines.end(args);
    Ok(())
}

fn line(binding: &BindingRow) -> String {
    match binding {
        BindingRow::Host { host, address, .. } => format!("all  {host} > {address} static"),
        BindingRow::Port { protocol, host, address, expires, .. } => {
            let left = expires.map_or("static".to_string(), |left| format!("{left} s"));
            format!("{protocol:<4} {host} > {address} {left}")
        }
    }
}
