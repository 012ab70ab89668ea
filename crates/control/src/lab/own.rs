//! Strait's form of a topology, in TOML. docs/lab.md describes it.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::Form;
use super::draft::{Delay, Draft, HostDraft, LinkDraft, Rate, SwitchDraft, Word};
use crate::problem::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The program of switches that name none.
    program: Option<String>,
    /// The target of switches that name none.
    target: Option<Word>,
    #[serde(default)]
    host: BTreeMap<Word, Host>,
    #[serde(default)]
    switch: BTreeMap<Word, Switch>,
    #[serde(default)]
    link: Vec<Link>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Host {
    #[serde(default)]
    addresses: Vec<Word>,
    mac: Option<Word>,
    #[serde(default)]
    gateways: Vec<Word>,
    #[serde(default)]
    routes: Vec<Word>,
    #[serde(default)]
    neighbours: BTreeMap<Word, Word>,
    #[serde(default)]
    commands: Vec<String>,
    #[serde(default)]
    offloads: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Switch {
    program: Option<String>,
    target: Option<Word>,
    #[serde(default)]
    entries: Vec<String>,
    grpc: Option<Spanned<u16>>,
    cpu_port: Option<Spanned<u32>>,
    workers: Option<usize>,
    controller: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    ends: Spanned<Vec<Word>>,
    delay: Option<Word>,
    loss: Option<Word>,
    rate: Option<Word>,
    queue: Option<u32>,
}

/// Reads a file. Its problem is that it is no TOML, or that it has an unknown key or a value of another type.
pub fn read(text: &str) -> Result<Draft, Problem> {
    let file: File = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        Problem::at(text, span, error.message().to_string(), "docs/lab.md has all keys".to_string())
    })?;
    let File { program, target, host, switch, link } = file;
    let switches = switch.into_iter().map(|(name, switch)| SwitchDraft {
        name,
        program: switch.program.or_else(|| program.clone()),
        target: switch.target.or_else(|| target.clone()),
        entries: switch.entries,
        grpc: switch.grpc,
        cpu_port: switch.cpu_port,
        workers: switch.workers,
        controller: switch.controller,
    });
    Ok(Draft {
        form: Form::Own,
        switches: switches.collect(),
        hosts: host.into_iter().map(|(name, host)| draft(name, host)).collect(),
        links: link.into_iter().map(link_draft).collect(),
    })
}

fn draft(name: Word, host: Host) -> HostDraft {
    HostDraft {
        name,
        addresses: host.addresses,
        mac: host.mac,
        gateways: host.gateways,
        routes: host.routes,
        neighbours: host.neighbours.into_iter().collect(),
        commands: host.commands,
        offloads: host.offloads,
    }
}

fn link_draft(link: Link) -> LinkDraft {
    LinkDraft {
        place: link.ends.span(),
        ends: link.ends.into_inner(),
        delay: Delay::Word(link.delay),
        loss: link.loss,
        rate: Rate::Word(link.rate),
        queue: link.queue,
    }
}
