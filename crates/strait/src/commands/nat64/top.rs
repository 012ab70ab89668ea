//! `top`: the subscribers with the most bindings.

use translator::flows;

use super::select;
use crate::cli::TopArgs;

/// Prints the subscribers with the most bindings.
pub fn top(args: &TopArgs) -> anyhow::Result<()> {
    let top = flows::top(&select(&args.of), args.subscriber, args.lines)?;
    if args.of.json {
        println!("{}", serde_json::to_string_pretty(&top)?);
        return Ok(());
    }
    println!("{:>10} {:>10} {:>10}  subscriber", "bindings", "sessions", "refused");
    for one in &top {
        let refused = one.refused.map_or("-".to_string(), |n| n.to_string());
        println!("{:>10} {:>10} {refused:>10}  {}", one.bindings, one.sessions, one.prefix);
    }
    Ok(())
}
