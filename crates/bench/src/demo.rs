//! `make demo`: an IPv6-only client reaches an IPv4-only server through a P4 program. Each step prints what it does.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::nat64::{self, Plan, Progress, measure, prepare, start_paths};
use crate::path::{ActivePath, PathId};
use crate::report::{Machine, Measure, Offloads, Report, table};
use crate::{Error, Result, http, interrupt, lab, ping, traceroute};

/// Size of the page that is fetched, in bytes. It takes many TCP segments, so that offloads matter.
const PAGE: usize = 512 * 1024;
/// Number of echo requests of each size.
const ECHOES: u32 = 20;
/// Payload sizes of echo requests, in bytes: ping's default, and one that fills a packet of 1500 bytes. That is 1500 less 40 (IPv6 header),
/// less 8 (ICMPv6 header), less the 20 bytes by which the IPv4 header is shorter, so that the reply also fits after its translation.
const PAYLOADS: [u32; 2] = [56, 1432];

/// The options of `strait demo`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Where packets are translated [default: tc, or native where eBPF is not available]
    #[arg(long, value_enum)]
    pub target: Option<Where>,

    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Fail unless every TCP throughput of Strait is at least this share of plain forwarding's
    #[arg(long, value_name = "RATIO")]
    pub min_ratio: Option<f64>,
}

/// The target that translates packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Where {
    /// An eBPF program in the kernel.
    Tc,
    /// A process with a TUN interface. It needs no privileges beyond those of a user namespace.
    Native,
}

impl Where {
    /// The best target for this machine: the kernel if it accepts eBPF programs from this process, otherwise native.
    fn here() -> Self {
        let bpf =
            |probe: &io::doctor::Probe| probe.name == "bpf" && probe.status != io::doctor::Status::Missing;
        if io::doctor::examine().iter().any(bpf) { Where::Tc } else { Where::Native }
    }

    fn path(self) -> PathId {
        match self {
            Where::Tc => PathId::Express,
            Where::Native => PathId::Native,
        }
    }
}

/// Runs the demo and prints it to standard output. `strait` is the executable whose `nat64 up` sets up translation. Every step runs even if
/// an earlier one failed; the first failure is returned at the end.
pub fn run(options: &Options, strait: &Path) -> Result<Report> {
    prepare(strait)?;
    let mut plan = Plan::of(&nat64::Options { quick: true, ..nat64::Options::default() });
    // One plain path and one stream of UDP are enough for the comparison here.
    let place = options.target.unwrap_or_else(Where::here);
    let left_out = match place {
        Where::Tc => [PathId::Plain6, PathId::Native].as_slice(),
        Where::Native => &[PathId::Plain6, PathId::Express, PathId::Device],
    };
    plan.paths.retain(|path| !left_out.contains(path));
    plan.cells.retain(|cell| cell.measure != Measure::UdpLoss || cell.streams == 1);
    let mut skipped = plan.leave_out_unavailable();

    if let Some(missing) = skipped.iter().find(|s| s.path == place.path()) {
        return Err(Error::Usage(format!("{} cannot be shown: {}", missing.path, missing.reason)));
    }
    print!("{}", picture(place));
    let start = Instant::now();
    let active = start_paths(&plan.paths, Offloads::On, strait, &mut skipped)?;
    let mut story = Story::default();
    let translated = active.iter().find(|active| active.path == place.path());
    if let Some(translated) = translated {
        story.step("up", || Ok(up(translated, active.len(), start)));
        for payload in PAYLOADS {
            story.step("ping", || echo(translated, payload));
        }
        story.step("route", || trace(translated));
        story.step("HTTP", || fetch(translated));
    }
    interrupt::check()?;

    println!("  iperf3  TCP and UDP, beside plain forwarding in the same run …\n");
    let progress = Progress::new(plan.cells.len() * plan.settings.repeat as usize * plan.paths.len());
    let cells = measure(&active, plan.cells.iter().copied(), &plan.settings, &progress, &mut skipped)?;
    progress.finish();
    let machine = Machine::here();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let report = Report { version, machine, settings: plan.settings, skipped, cells };
    print!("{}", figures(&report));

    drop(active);
    println!("\n  down    namespaces, device, routes and pins are removed; nothing is left.");
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    story.end()?;
    options.min_ratio.map_or(Ok(()), |wanted| report.require(wanted))?;
    Ok(report)
}

/// A picture of the path that a packet takes.
fn picture(place: Where) -> String {
    let made = match place {
        Where::Tc => "compiled to eBPF, in the kernel",
        Where::Native => "compiled to machine code, in a process without privileges",
    };
    format!(
        "\
An IPv6-only client talks to an IPv4-only server. Between them: a P4 program,
{made}.

   client                      router                        server
   ┌─────────────────┐   ┌─────────────────────────┐   ┌───────────────┐
   │ IPv6 only       │   │  Linux routes into and  │   │ IPv4 only     │
   │                 ├───┤  out of device `nat64`: ├───┤               │
   │ {:<15} │   │  apps/nat64/nat64.p4    │   │ {:<13} │
   └─────────────────┘   └─────────────────────────┘   └───────────────┘
   calls the server                                     sees the client
   {:<52} 198.51.100.2

",
        lab::CLIENT6.to_string(),
        lab::SERVER4.to_string(),
        PathId::Express.target().to_string(),
    )
}

/// The failures of the demo's steps so far.
#[derive(Default)]
struct Story {
    failure: Option<Error>,
}

impl Story {
    /// Runs one step and prints its result.
    fn step(&mut self, name: &str, act: impl FnOnce() -> Result<String>) {
        match act() {
            Ok(text) => println!("  {name:<7} {text}"),
            Err(error) => {
                println!("  {name:<7} FAILED: {error}");
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Returns the first failure, if there was one.
    fn end(self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }
}

fn up(active: &ActivePath, labs: usize, start: Instant) -> String {
    let output = active.output().lines().next().unwrap_or_default();
    let output = if output.is_empty() { String::new() } else { format!(" {output}") };
    format!(
        "{labs} labs of three namespaces are built, the program is loaded and warm ({:.1} s).{output}",
        start.elapsed().as_secs_f64()
    )
}

fn echo(active: &ActivePath, payload: u32) -> Result<String> {
    let target = active.path.target();
    let echoes = ping::run(&active.lab, target, ECHOES, payload)?;
    if echoes.answered < echoes.sent {
        return Err(Error::Traffic(format!(
            "{} of {} echo requests of {payload} bytes to {target} were answered",
            echoes.answered, echoes.sent
        )));
    }
    let mean = echoes.mean_ms.map(|mean| format!(", {mean:.3} ms")).unwrap_or_default();
    Ok(format!("{target}: {} of {} answered, {payload} bytes{mean}", echoes.answered, echoes.sent))
}

/// The route to the server: the translator is one hop of it.
fn trace(active: &ActivePath) -> Result<String> {
    let target = active.path.target();
    let hops = traceroute::run(&active.lab, target)?;
    let names: Vec<_> = hops.iter().map(|hop| hop.map_or("*".to_owned(), |hop| hop.to_string())).collect();
    if hops.len() != 2 || hops.last() != Some(&Some(target)) {
        return Err(Error::Traffic(format!(
            "traceroute shows {}, not one router before {target}",
            names.join(", ")
        )));
    }
    Ok(format!("traceroute: {}", names.join(" → ")))
}

fn fetch(active: &ActivePath) -> Result<String> {
    let target = active.path.target();
    let fetched = http::exchange(&active.lab, target, PAGE)?;
    Ok(format!(
        "GET http://[{target}]/: {} KiB in {:.1} ms, every byte right; the server saw {}",
        fetched.bytes / 1024,
        fetched.time.as_secs_f64() * 1e3,
        fetched.seen
    ))
}

/// The tables of the report, indented, each with a title that names the unit.
fn figures(report: &Report) -> String {
    let mut text = String::new();
    let offered = report.cells.iter().find_map(|cell| cell.offered).unwrap_or_default() / 1e9;
    for (title, measure) in [
        ("TCP throughput, Gbit/s".to_owned(), Measure::Tcp),
        (
            format!("UDP datagrams lost at {offered:.2} Gbit/s, a rate that plain forwarding carries"),
            Measure::UdpLoss,
        ),
    ] {
        let rows = table::rows(report, measure);
        if !rows.is_empty() {
            text += &format!("  {title}\n\n");
            text.extend(rows.lines().map(|line| format!("  {line}\n")));
            text.push('\n');
        }
    }
    for skipped in &report.skipped {
        text += &format!("  skipped: {}: {}\n", skipped.path, skipped.reason);
    }
    text + &format!(
        "  Medians of {} × {} s on {} × {}, Linux {}.\n",
        report.settings.repeat,
        report.settings.seconds,
        report.machine.processors,
        report.machine.processor,
        report.machine.kernel
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_straight() {
        let picture = picture(Where::Tc);
        let boxes: Vec<usize> = picture
            .lines()
            .filter(|line| line.contains(['│', '┌', '└']))
            .map(|line| line.chars().count())
            .collect();
        assert!(boxes.windows(2).all(|pair| pair[0] == pair[1]), "{picture}");
    }

    #[test]
    fn a_story_goes_on_after_a_failure_and_remembers_it() {
        let mut story = Story::default();
        story.step("one", || Err(Error::Traffic("first".into())));
        story.step("two", || Ok("fine".into()));
        story.step("three", || Err(Error::Traffic("second".into())));
        assert_eq!(story.end().unwrap_err().to_string(), "first");
    }

    #[test]
    fn figures_are_in_the_demo() {
        let text = figures(&crate::report::example());
        assert!(text.contains("| to server, 1 stream |") && text.contains("lost at 0.70 Gbit/s"), "{text}");
    }
}
