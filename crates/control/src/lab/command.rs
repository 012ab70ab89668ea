//! What people type at the prompt of a laboratory.

use super::Topology;

/// The words that begin a command, and are therefore no names of nodes.
pub const RESERVED: [&str; 9] = ["exit", "quit", "help", "nodes", "pingall", "capture", "log", "sh", "table"];

/// A line that people type at the prompt, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// An empty line.
    Nothing,
    /// `NODE COMMAND…`: in the namespace of a node. Names of hosts in the command have become addresses.
    On(String, String),
    /// `sh COMMAND…`: where the lab was started.
    Shell(String),
    /// Every host pings every other.
    PingAll,
    /// `capture NODE[:PORT] FILE`.
    Capture(super::End, String),
    /// `table SWITCH COMMAND…`: `strait table` with this switch.
    Table(String, Vec<String>),
    /// `log SWITCH`: what it has printed.
    Log(String),
    /// Shows hosts, switches and links.
    Nodes,
    /// Shows the commands.
    Help,
    /// Takes everything down.
    Exit,
}

/// Reads a line.
pub fn read(topology: &Topology, line: &str) -> Result<Command, String> {
    let line = line.trim();
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    Ok(match (first, rest) {
        ("", _) => Command::Nothing,
        ("exit" | "quit", "") => Command::Exit,
        ("help", "") => Command::Help,
        ("nodes", "") => Command::Nodes,
        ("pingall", "") => Command::PingAll,
        ("sh", command) if !command.is_empty() => Command::Shell(command.to_string()),
        ("log", name) => Command::Log(switch(topology, name)?),
        ("capture", rest) => capture(topology, rest)?,
        ("table", rest) => {
            let (name, rest) = rest.split_once(' ').unwrap_or((rest, "dump"));
            Command::Table(switch(topology, name)?, rest.split_whitespace().map(str::to_string).collect())
        }
        (name, _) if RESERVED.contains(&name) => {
            return Err(format!("`{line}` is not a command; `help` lists them"));
        }
        (name, "") if topology.nodes().any(|node| node == name) => {
            return Err(format!("what is to run on {name}? `{name} COMMAND`; `{name} bash` is a shell"));
        }
        (name, command) => Command::On(node(topology, name)?, with_addresses(topology, command)),
    })
}

fn node(topology: &Topology, name: &str) -> Result<String, String> {
    let all: Vec<&str> = topology.nodes().collect();
    match all.contains(&name) {
        true => Ok(name.to_string()),
        false => Err(format!(
            "`{name}` is no node and no command; nodes: {}; `help` lists commands",
            all.join(", ")
        )),
    }
}

fn switch(topology: &Topology, name: &str) -> Result<String, String> {
    let all: Vec<&str> = topology.switches.iter().map(|s| s.name.as_str()).collect();
    match all.contains(&name) {
        true => Ok(name.to_string()),
        false => Err(format!("`{name}` is no switch; switches: {}", all.join(", "))),
    }
}

fn capture(topology: &Topology, rest: &str) -> Result<Command, String> {
    let (end, file) = rest.split_once(' ').ok_or("capture NODE[:PORT] FILE")?;
    let (name, port) = end.split_once(':').unwrap_or((end, "0"));
    let name = node(topology, name)?;
    let found = topology.ends_of(&name).find(|(end, _)| end.port.to_string() == port);
    let (end, _) = found.ok_or_else(|| {
        let ports: Vec<String> =
            topology.ends_of(&name).map(|(end, _)| format!("{name}:{}", end.port)).collect();
        format!("{name} has no link at {port}; there are {}", ports.join(", "))
    })?;
    Ok(Command::Capture(end.clone(), file.trim().to_string()))
}

/// Replaces words that are names of hosts by their first address.
pub fn with_addresses(topology: &Topology, command: &str) -> String {
    let address = |word: &str| {
        let host = topology.host(word)?;
        host.addresses.first().map(|net| net.addr().to_string())
    };
    // Only the words change: what is between them may be quoted.
    let words = command.split_inclusive(char::is_whitespace).map(|word| {
        let name = word.trim_end();
        match address(name) {
            Some(address) => format!("{address}{}", &word[name.len()..]),
            None => word.to_string(),
        }
    });
    words.collect()
}
