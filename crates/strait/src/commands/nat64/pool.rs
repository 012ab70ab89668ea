//! `pool`: the pools, and how many of their ports have bindings.

use nat64::Protocol;
use translator::flows::{self, PoolUse};

use super::select;
use crate::cli::SelectArgs;

/// Prints the pools.
pub fn pool(args: &SelectArgs) -> anyhow::Result<()> {
    let pools = flows::pools(&select(args))?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&pools)?),
        false => pools.iter().for_each(print),
    }
    Ok(())
}

fn print(pool: &PoolUse) {
    let nets: Vec<_> = pool.addresses.iter().map(ToString::to_string).collect();
    println!("pool of {}: {}", pool.hosts, nets.join(" and "));
    let ports = pool.capacity;
    for name in Protocol::ALL.map(Protocol::name) {
        let used = pool.bindings.get(name).copied().unwrap_or(0);
        println!("  {name:<4} {used:>10} of {ports} ports ({:.1} %)", 100.0 * used as f64 / ports as f64);
    }
}
