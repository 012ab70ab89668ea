//! Brings a translator up from a text, reads its counters and takes it down again, as a daemon would, in a network namespace of its own. For root:
//! `cargo run --example translator`.

use std::net::UdpSocket;
use std::path::PathBuf;

use io::link::{Change, Handle, Prefix};
use translator::log::Priority;
use translator::{File, Log, Select, down, status, up};

const CONFIG: &str = r#"
    [nat64]
    mode = "stateless"
    prefix = "2001:db8:64::/96"
    attach = { device = "nat64" }
    [[map]]
    ipv4 = "198.51.100.0/24"
    ipv6 = "2001:db8:100::/120"
"#;

fn main() -> anyhow::Result<()> {
    io::netns::run_in_fresh(translate)?
}

fn translate() -> anyhow::Result<()> {
    let log = Log::new(|priority: Priority, text: &str| eprintln!("{priority:?}: {text}"));
    // The path is only a name by which the translator is found again.
    let file = File { path: PathBuf::from("/example/nat64.toml"), text: CONFIG.into() };
    let up = up::up(&file, false, &log)?;
    println!("{} is up: {}", up.device, up.described());
    send()?;
    let select = Select::Device(up.device);
    for status in status::status(&select)? {
        let status = status?;
        for (name, count) in status.counters.iter().filter(|(_, count)| count.packets > 0) {
            println!("{name}: {} packets", count.packets);
        }
    }
    down::down(&select, &log, &mut |device| println!("{device} is down"))
}

/// Sends a packet to a host that is translated.
fn send() -> anyhow::Result<()> {
    let links = Handle::open()?;
    links.change("lo", &Change { up: Some(true), ..Change::default() })?;
    links.add_address("lo", Prefix::new([192, 0, 2, 1], 32))?;
    UdpSocket::bind("192.0.2.1:0")?.send_to(b"hello", "198.51.100.5:9")?;
    Ok(())
}
