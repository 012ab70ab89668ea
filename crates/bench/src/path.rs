//! The paths that are compared: what the router runs to carry traffic between client and server.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use io::workdir::{self, WorkDir};

use crate::lab::{self, Lab, SERVER4, SERVER6, Sink, Stack, translated};
use crate::process::{Job, installed, run};
use crate::{Error, Result};

/// A value of `--paths`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Strait's NAT64 in the kernel, once with express lanes and once without.
    Strait,
    /// Strait's stateful NAT64 in the kernel, with express lanes.
    Stateful,
    /// Strait's NAT64 in a process with a TUN interface.
    Native,
    /// The kernel's own forwarding, IPv4 and IPv6.
    Plain,
    /// Tayga, a NAT64 in user space.
    Tayga,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "strait" => Ok(Self::Strait),
            "stateful" => Ok(Self::Stateful),
            "native" => Ok(Self::Native),
            "plain" => Ok(Self::Plain),
            "tayga" => Ok(Self::Tayga),
            other => Err(format!(
                "no path is called `{other}`: there are strait, stateful, native, plain and tayga"
            )),
        }
    }
}

/// A path that is measured. Each path is a column of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathId {
    /// Plain IPv4 forwarding by the kernel. Ratios are relative to it.
    #[serde(rename = "plain-ipv4")]
    Plain4,
    /// Plain IPv6 forwarding by the kernel.
    #[serde(rename = "plain-ipv6")]
    Plain6,
    /// Strait's NAT64 with express lanes on the router's interfaces. Packets bypass netfilter.
    #[serde(rename = "strait-express")]
    Express,
    /// Strait's NAT64 in device mode: every packet passes through the `nat64` device.
    #[serde(rename = "strait-device")]
    Device,
    /// Strait's stateful NAT64 with express lanes on the router's interfaces. Packets bypass netfilter.
    #[serde(rename = "strait-stateful")]
    Stateful,
    /// Strait's NAT64 in a process with a TUN interface.
    #[serde(rename = "strait-native")]
    Native,
    /// Tayga, a NAT64 in user space.
    #[serde(rename = "tayga")]
    Tayga,
}

impl PathId {
    /// Whether it is a program of somebody else: what is wrong with one ends no run of ours.
    pub fn is_peer(self) -> bool {
        self == Self::Tayga
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain4 => "plain IPv4",
            Self::Plain6 => "plain IPv6",
            Self::Express => "Strait express",
            Self::Device => "Strait device",
            Self::Stateful => "Strait stateful",
            Self::Native => "Strait native",
            Self::Tayga => "Tayga",
        })
    }
}

impl PathId {
    /// The paths that these choices select.
    pub fn of(choices: &[Choice]) -> Vec<Self> {
        let mut paths = Vec::new();
        for choice in choices {
            paths.extend_from_slice(match choice {
                Choice::Plain => &[Self::Plain4, Self::Plain6],
                Choice::Strait => &[Self::Express, Self::Device],
                Choice::Stateful => &[Self::Stateful],
                Choice::Native => &[Self::Native],
                Choice::Tayga => &[Self::Tayga],
            });
        }
        paths.sort();
        paths.dedup();
        paths
    }

    /// The address under which the client reaches the server on this path.
    pub fn target(self) -> IpAddr {
        match self {
            Self::Plain4 => SERVER4.into(),
            Self::Plain6 => SERVER6.into(),
            Self::Express | Self::Device | Self::Stateful | Self::Native | Self::Tayga => {
                translated(SERVER4).into()
            }
        }
    }

    /// The source and the destination of packets from the client to the sink at the server, as the client sends them.
    pub fn sink_at_server(self) -> (IpAddr, IpAddr) {
        match self {
            Self::Plain4 => (Ipv4Addr::new(203, 0, 113, 2).into(), Sink::SERVER4.into()),
            Self::Plain6 => (lab::CLIENT6.into(), Sink::SERVER6.into()),
            Self::Express | Self::Device | Self::Stateful | Self::Native | Self::Tayga => {
                (lab::CLIENT6.into(), translated(Sink::SERVER4).into())
            }
        }
    }

    /// The source and the destination of packets from the server to the sink at the client, as the server sends them.
    pub fn sink_at_client(self) -> (IpAddr, IpAddr) {
        match self {
            Self::Plain4 => (SERVER4.into(), Sink::CLIENT4.into()),
            Self::Plain6 => (SERVER6.into(), Sink::CLIENT6.into()),
            Self::Express | Self::Device | Self::Stateful | Self::Native | Self::Tayga => {
                (SERVER4.into(), Sink::MAPPED4.into())
            }
        }
    }
}

/// A lab whose router runs one path.
///
/// Fields are dropped in their order: the translator stops before its namespaces are removed.
pub struct ActivePath {
    /// The path that the router runs.
    pub path: PathId,
    translator: Translator,
    /// The namespaces. Each path has its own lab, so that all paths are built alike.
    pub lab: Lab,
}

impl ActivePath {
    /// Builds a lab and starts the path in its router.
    pub fn start(path: PathId, strait: &Path) -> Result<Self> {
        let (label, stack) = match path {
            PathId::Plain4 => ("plain4", Stack::Dual),
            PathId::Plain6 => ("plain6", Stack::Dual),
            PathId::Express => (Mode::Express.label(), Stack::Translated),
            PathId::Device => (Mode::Device.label(), Stack::Translated),
            PathId::Stateful => (Mode::Stateful.label(), Stack::Translated),
            PathId::Native => ("native", Stack::Translated),
            PathId::Tayga => ("tayga", Stack::Translated),
        };
        let lab = Lab::build(label, stack)?;
        let translator = match path {
            PathId::Plain4 | PathId::Plain6 => Translator::Kernel,
            PathId::Express => Translator::Strait(Strait::up(&lab, strait, Mode::Express)?),
            PathId::Device => Translator::Strait(Strait::up(&lab, strait, Mode::Device)?),
            PathId::Stateful => Translator::Strait(Strait::up(&lab, strait, Mode::Stateful)?),
            PathId::Native => Translator::Native(Native::start(&lab, strait)?),
            PathId::Tayga => Translator::Tayga(Tayga::start(&lab)?),
        };
        Ok(Self { path, translator, lab })
    }

    /// What the translator printed when it started, for the output of the demo.
    pub fn output(&self) -> &str {
        match &self.translator {
            Translator::Strait(strait) => &strait.output,
            Translator::Kernel | Translator::Native(_) | Translator::Tayga(_) => "",
        }
    }

    /// Runs `strait nat64 WORDS` with this path's configuration; `None` on paths without one.
    pub fn ask(&self, words: &[&str]) -> Option<Result<String>> {
        match &self.translator {
            Translator::Strait(strait) => Some(run(&mut strait.command(words))),
            Translator::Kernel | Translator::Native(_) | Translator::Tayga(_) => None,
        }
    }
}

/// The reason why this machine cannot measure a path; `None` if it can.
pub fn unavailable(path: PathId) -> Option<String> {
    match path {
        PathId::Tayga if !installed("tayga") => {
            Some("`tayga` is not installed (apt-get install tayga)".to_owned())
        }
        PathId::Native | PathId::Tayga => {
            let opened = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
            let hint = "hint: as root, chmod 666 /dev/net/tun, which is what most distributions ship";
            opened.err().map(|error| format!("/dev/net/tun cannot be opened ({error}); {hint}"))
        }
        _ => None,
    }
}

/// What translates or forwards in the router.
enum Translator {
    /// The kernel forwards; nothing translates.
    Kernel,
    /// A `nat64` device made by `strait nat64 up`.
    Strait(Strait),
    /// A `strait nat64` process in the router.
    Native(#[expect(dead_code, reason = "owned for its Drop")] Native),
    /// A Tayga process in the router.
    Tayga(#[expect(dead_code, reason = "owned for its Drop")] Tayga),
}

/// A private directory, named after this process. It is removed on drop.
pub(crate) struct Scratch(WorkDir);

impl Scratch {
    pub(crate) fn make(label: &str) -> Result<Self> {
        Ok(Self(WorkDir::named(&format!("{}{}-{label}-", lab::PREFIX, std::process::id()))?))
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.path().join(name);
        fs::write(&path, text).map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(path)
    }
}

/// Removes what killed runs left outside their namespaces: scratch directories, and Strait's pins in the host's BPF file system. It must
/// run before [`lab::remove_stale`], because `strait nat64 down` needs the router's namespace.
pub fn remove_stale(strait: &Path) {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = lab::owner(&name).filter(|&pid| !lab::alive(pid)) else { continue };
        // Anybody can make a directory of that name.
        if !workdir::is_private(&entry.path()) {
            continue;
        }
        let config = entry.path().join("nat64.toml");
        if config.exists() {
            for mode in [Mode::Express, Mode::Device, Mode::Stateful] {
                let router = lab::file(&format!("{}{pid}-{}-router", lab::PREFIX, mode.label()));
                // This fails if the killed run had only written its configuration.
                let _ = run(&mut strait_command(strait, &router, &config, &["down"]));
                remove_pins(&mode.device(pid));
            }
        }
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Removes the pins of a device whose namespace is gone.
fn remove_pins(device: &str) {
    let pins = fs::read_dir("/sys/fs/bpf/strait").into_iter().flatten().flatten();
    let of = format!("{device}-");
    for pin in pins.filter(|pin| pin.file_name().to_string_lossy().starts_with(&of)) {
        let _ = fs::remove_dir_all(pin.path());
    }
}

/// The command `strait nat64 WORDS --config FILE` in a router's namespace.
fn strait_command(exe: &Path, router: &Path, config: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", router.display())).arg("--").arg(exe).arg("nat64");
    command.args(words).arg("--config").arg(config);
    command
}

/// A translator that `strait nat64 up` has set up.
struct Strait {
    exe: PathBuf,
    router: PathBuf,
    config: PathBuf,
    /// The output of `strait nat64 up`.
    output: String,
    _scratch: Scratch,
}

impl Strait {
    fn up(lab: &Lab, exe: &Path, mode: Mode) -> Result<Self> {
        let scratch = Scratch::make(mode.label())?;
        let config = scratch.write("nat64.toml", &strait_config(mode, std::process::id()))?;
        let router = lab.router.file();
        let mut strait =
            Self { exe: exe.to_owned(), router, config, output: String::new(), _scratch: scratch };
        strait.output = run(&mut strait.command(&["up"]))?;
        Ok(strait)
    }

    fn command(&self, words: &[&str]) -> Command {
        strait_command(&self.exe, &self.router, &self.config, words)
    }
}

impl Drop for Strait {
    fn drop(&mut self) {
        // The pins are in the host's BPF file system, so removing the namespace does not remove them.
        if let Err(error) = run(&mut self.command(&["down"])) {
            eprintln!("strait bench: {error}");
        }
    }
}

/// How packets reach Strait's program in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// They are translated on the interface where they arrive.
    Express,
    /// They are routed to the `nat64` device.
    Device,
    /// Like `Express`, with sessions.
    Stateful,
}

impl Mode {
    /// The part of the names of namespaces and files that distinguishes the modes.
    fn label(self) -> &'static str {
        match self {
            Mode::Express => "express",
            Mode::Device => "device",
            Mode::Stateful => "stateful",
        }
    }

    /// The name of the `nat64` device. All labs share the host's pins, so each needs its own device name.
    fn device(self, pid: u32) -> String {
        match self {
            Mode::Express => format!("n64e-{pid}"),
            Mode::Device => format!("n64-{pid}"),
            Mode::Stateful => format!("n64s-{pid}"),
        }
    }
}

/// The configuration for `strait nat64 up`.
fn strait_config(mode: Mode, pid: u32) -> String {
    let express = match mode {
        Mode::Express | Mode::Stateful => ", express = [\"r0\", \"r1\"], bypass-netfilter = true",
        Mode::Device => "",
    };
    let device = mode.device(pid);
    if mode == Mode::Stateful {
        // Small packets come to the client from outside, so the port there has a static binding.
        let port = crate::small::PORT;
        return format!(
            "[nat64]\n\
             mode   = \"stateful\"\n\
             prefix = \"{}\"\n\
             pool   = [\"{}\"]\n\
             attach = {{ device = \"{device}\"{express} }}\n\n\
             [[binding]]\n\
             protocol = \"udp\"\n\
             ipv4 = \"{}:{port}\"\n\
             ipv6 = \"[{}]:{port}\"\n",
            lab::PREFIX6,
            lab::EAM4,
            Sink::MAPPED4,
            Sink::CLIENT6,
        );
    }
    format!(
        "[nat64]\n\
         mode   = \"stateless\"\n\
         prefix = \"{}\"\n\
         attach = {{ device = \"{device}\"{express} }}\n\n\
         [[map]]\n\
         ipv4 = \"{}\"\n\
         ipv6 = \"{}\"\n",
        lab::PREFIX6,
        lab::EAM4,
        lab::EAM6,
    )
}

/// A running `strait nat64 up --target native`. Its interface is removed when it stops.
struct Native {
    _job: Job,
    _scratch: Scratch,
}

impl Native {
    fn start(lab: &Lab, exe: &Path) -> Result<Self> {
        let scratch = Scratch::make("native")?;
        let config = scratch.write("native.toml", &strait_config(Mode::Device, std::process::id()))?;
        let mut command = strait_command(exe, &lab.router.file(), &config, &["up", "--target", "native"]);
        let mut job = Job::background(&mut command)?;
        // The first start compiles the program for this processor, which may take some seconds.
        job.wait_for(" is up", Duration::from_secs(60))?;
        Ok(Self { _job: job, _scratch: scratch })
    }
}

/// A running Tayga process.
struct Tayga {
    _job: Job,
    _scratch: Scratch,
}

impl Tayga {
    fn start(lab: &Lab) -> Result<Self> {
        let scratch = Scratch::make("tayga")?;
        let config = scratch.write("tayga.conf", &tayga_config(scratch.0.path()))?;
        run(lab.router.command("tayga").arg("--config").arg(&config).arg("--mktun"))?;
        lab.router.ip(&format!(
            "link set nat64 up\n\
             addr add 203.0.113.253 dev nat64\n\
             route add {} dev nat64\n\
             route add {} dev nat64\n",
            lab::PREFIX6,
            lab::EAM4,
        ))?;
        let mut job =
            Job::background(lab.router.command("tayga").arg("--nodetach").arg("--config").arg(&config))?;
        // Tayga prints nothing when it is ready. Its link has a carrier once Tayga has opened the device.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(20));
            let state = run(lab.router.command("ip").args(["link", "show", "dev", "nat64"]))?;
            if state.contains("LOWER_UP") {
                break;
            }
        }
        if !job.running() {
            job.wait_for("never", Duration::from_millis(100))?;
        }
        Ok(Self { _job: job, _scratch: scratch })
    }
}

/// Tayga's configuration. It has the same addresses as Strait's, one entry for each host, because older versions of Tayga do not map
/// ranges.
fn tayga_config(data: &Path) -> String {
    format!(
        "tun-device nat64\n\
         ipv4-addr 203.0.113.254\n\
         prefix {}\n\
         map 198.51.100.2 {}\n\
         map {} {}\n\
         data-dir {}\n",
        lab::PREFIX6,
        lab::CLIENT6,
        Sink::MAPPED4,
        Sink::CLIENT6,
        data.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        let choices: Vec<Choice> = ["tayga", "plain"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(PathId::of(&choices), [PathId::Plain4, PathId::Plain6, PathId::Tayga]);
        assert!("jool".parse::<Choice>().unwrap_err().contains("strait, stateful, native, plain and tayga"));
    }

    #[test]
    fn names_fit_where_they_must() {
        // IFNAMSIZ is 16 including the terminating zero; process ids have at most seven digits (PID_MAX_LIMIT).
        assert!(Mode::Express.device(4_194_304).len() < 15);
        assert!(strait_config(Mode::Device, 1).contains("attach = { device = \"n64-1\" }"));
        assert!(strait_config(Mode::Express, 1).contains("\"n64e-1\", express = [\"r0\", \"r1\"], bypass"));
    }
}
