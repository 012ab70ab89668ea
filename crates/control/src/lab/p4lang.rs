//! `topology.json` of p4lang's tutorials, with the meaning that their `run_exercise.py` gives it: the interface of a host is `eth0`, a link is
//! `[end, end, latency, bandwidth]`, a number is milliseconds or Mbit/s, and a switch's end is `s1-p1`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toml::Spanned;

use super::Form;
use super::draft::{Delay, Draft, HostDraft, LinkDraft, Rate, SwitchDraft, Word};
use crate::problem::Problem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'a> {
    #[serde(borrow)]
    hosts: BTreeMap<&'a str, Host<'a>>,
    #[serde(borrow)]
    switches: BTreeMap<&'a str, Switch<'a>>,
    #[serde(borrow)]
    links: Vec<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host<'a> {
    #[serde(borrow)]
    ip: &'a RawValue,
    #[serde(borrow)]
    mac: &'a RawValue,
    #[serde(default)]
    commands: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch<'a> {
    runtime_json: Option<String>,
    cli_input: Option<String>,
    program: Option<String>,
    #[serde(borrow)]
    cpu_port: Option<&'a RawValue>,
}

/// Reads a file. Its problem is the first place that is not what the form demands.
pub fn read(text: &str) -> Result<Draft, Problem> {
    let file: File<'_> = serde_json::from_str(text).map_err(|error| {
        let start: usize =
            text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let at = start + error.column().saturating_sub(1);
        let hint = "this is read as topology.json of p4lang's tutorials; Strait's own form is TOML";
        Problem::at(text, at..at, error.to_string(), hint.to_string())
    })?;
    let reader = Reader { text };
    let mut hosts = Vec::new();
    for (name, host) in file.hosts {
        hosts.push(HostDraft {
            name: reader.name(name),
            addresses: vec![reader.word(host.ip, "an address such as \"10.0.1.1/24\"")?],
            mac: Some(reader.word(host.mac, "an address such as \"08:00:00:00:01:11\"")?),
            gateways: Vec::new(),
            routes: Vec::new(),
            neighbours: Vec::new(),
            commands: host.commands,
            offloads: false,
        });
    }
    let switches = file.switches.into_iter().map(|(name, switch)| reader.switch(name, switch));
    let switches = switches.collect::<Result<_, _>>()?;
    let links = file.links.iter().map(|link| reader.link(link)).collect::<Result<_, _>>()?;
    Ok(Draft { form: Form::P4lang, hosts, switches, links })
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    /// The place of a part of the text.
    fn span(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + part.len()
    }

    fn problem(&self, at: &RawValue, what: &str) -> Problem {
        let message = format!("`{}` is not {what}", at.get());
        Problem::at(self.text, self.span(at.get()), message, String::new())
    }

    fn name(&self, name: &str) -> Word {
        Spanned::new(self.span(name), name.to_string())
    }

    fn word(&self, value: &RawValue, what: &str) -> Result<Word, Problem> {
        let text: String = serde_json::from_str(value.get()).map_err(|_| self.problem(value, what))?;
        Ok(Spanned::new(self.span(value.get()), text))
    }

    fn switch(&self, name: &str, switch: Switch<'_>) -> Result<SwitchDraft, Problem> {
        let number = |raw: &RawValue| match serde_json::from_str(raw.get()) {
            Ok(Value::String(text)) => text.parse().ok(),
            Ok(Value::Number(number)) => number.as_u64().and_then(|n| u32::try_from(n).ok()),
            _ => None,
        };
        let cpu_port = match switch.cpu_port {
            None => None,
            Some(raw) => {
                let port = number(raw).ok_or_else(|| self.problem(raw, "the number of a port"))?;
                Some(Spanned::new(self.span(raw.get()), port))
            }
        };
        Ok(SwitchDraft {
            name: self.name(name),
            program: switch.program,
            target: None,
            entries: switch.cli_input.into_iter().chain(switch.runtime_json).collect(),
            grpc: None,
            cpu_port,
            workers: None,
            controller: None,
        })
    }

    fn link(&self, link: &[&RawValue]) -> Result<LinkDraft, Problem> {
        let mut ends = Vec::new();
        for raw in link.iter().take(2) {
            let end = self.word(raw, "an end of a link, such as \"h1\" or \"s1-p1\"")?;
            let span = end.span();
            // The port stands behind the last dash, so that it is `NODE:PORT` as in Strait's form.
            let text = end.into_inner();
            let own = text.rsplit_once("-p").map(|(node, port)| format!("{node}:{port}"));
            ends.push(Spanned::new(span, own.unwrap_or(text)));
        }
        let delay = match link.get(2) {
            None => Delay::Word(None),
            Some(raw) => match serde_json::from_str(raw.get()).ok().and_then(|n: f64| milliseconds(n)) {
                Some(delay) => Delay::Is(delay),
                None => Delay::Word(Some(self.word(raw, "a latency: a number of milliseconds")?)),
            },
        };
        let rate = match link.get(3).map(|raw| (raw, serde_json::from_str::<Option<f64>>(raw.get()))) {
            None | Some((_, Ok(None))) => Rate::Word(None),
            Some((_, Ok(Some(mbit)))) if mbit > 0.0 => Rate::Is((mbit * 1e6) as u64),
            Some((raw, _)) => return Err(self.problem(raw, "a bandwidth: a number of Mbit/s")),
        };
        let start = link.first().map_or(0, |raw| self.span(raw.get()).start);
        let end = link.last().map_or(start, |raw| self.span(raw.get()).end);
        Ok(LinkDraft { ends, place: start..end, delay, loss: None, rate, queue: None })
    }
}

fn milliseconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / 1e3).ok()
}
