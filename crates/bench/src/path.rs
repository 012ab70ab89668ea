//! The paths that are compared: what stands in the router and carries traffic from client to server.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::lab::{self, Lab, SERVER4, SERVER6, Sink, Stack, behind_prefix};
use crate::process::{Job, installed, run};
use crate::{Error, Result};

/// What `--paths` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Strait's NAT64 in the kernel, with express lanes and without.
    Strait,
    /// Strait's NAT64 in a process, behind a TUN interface.
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
            "native" => Ok(Self::Native),
            "plain" => Ok(Self::Plain),
            "tayga" => Ok(Self::Tayga),
            other => Err(format!("no path is called `{other}`: there are strait, native, plain and tayga")),
        }
    }
}

/// A path that is measured: a column of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathId {
    /// Plain IPv4 forwarding by the kernel. What ratios are relative to.
    #[serde(rename = "plain-ipv4")]
    Plain4,
    /// Plain IPv6 forwarding by the kernel.
    #[serde(rename = "plain-ipv6")]
    Plain6,
    /// Strait's NAT64, with express lanes on the router's interfaces, past netfilter.
    #[serde(rename = "strait-express")]
    Express,
    /// Strait's NAT64, every packet through the device.
    #[serde(rename = "strait-device")]
    Device,
    /// Strait's NAT64 in a process, behind a TUN interface.
    #[serde(rename = "strait-native")]
    Native,
    /// Tayga's NAT64.
    #[serde(rename = "tayga")]
    Tayga,
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain4 => "plain IPv4",
            Self::Plain6 => "plain IPv6",
            Self::Express => "Strait express",
            Self::Device => "Strait device",
            Self::Native => "Strait native",
            Self::Tayga => "Tayga",
        })
    }
}

impl PathId {
    /// The paths that a choice stands for.
    pub fn of(choices: &[Choice]) -> Vec<Self> {
        let mut paths = Vec::new();
        for choice in choices {
            paths.extend_from_slice(match choice {
                Choice::Plain => &[Self::Plain4, Self::Plain6],
                Choice::Strait => &[Self::Express, Self::Device],
                Choice::Native => &[Self::Native],
                Choice::Tayga => &[Self::Tayga],
            });
        }
        paths.sort();
        paths.dedup();
        paths
    }

    /// The server's address as the client must call it.
    pub fn target(self) -> IpAddr {
        match self {
            Self::Plain4 => SERVER4.into(),
            Self::Plain6 => SERVER6.into(),
            Self::Express | Self::Device | Self::Native | Self::Tayga => behind_prefix(SERVER4).into(),
        }
    }

    /// Source and destination of packets that vanish at the server, as the client sends them.
    pub fn sink_at_server(self) -> (IpAddr, IpAddr) {
        match self {
            Self::Plain4 => (Ipv4Addr::new(203, 0, 113, 2).into(), Sink::SERVER4.into()),
            Self::Plain6 => (lab::CLIENT6.into(), Sink::SERVER6.into()),
            Self::Express | Self::Device | Self::Native | Self::Tayga => {
                (lab::CLIENT6.into(), behind_prefix(Sink::SERVER4).into())
            }
        }
    }

    /// Source and destination of packets that vanish at the client, as the server sends them.
    pub fn sink_at_client(self) -> (IpAddr, IpAddr) {
        match self {
            Self::Plain4 => (SERVER4.into(), Sink::CLIENT4.into()),
            Self::Plain6 => (SERVER6.into(), Sink::CLIENT6.into()),
            Self::Express | Self::Device | Self::Native | Self::Tayga => {
                (SERVER4.into(), Sink::MAPPED4.into())
            }
        }
    }
}

/// A lab with a path through its router.
///
/// Fields are dropped in this order: the translator goes before the namespaces in which it lives.
pub struct Laid {
    /// Which path it is.
    pub path: PathId,
    translator: Translator,
    /// The namespaces. Both plain paths have one of their own, too: all paths are built alike.
    pub lab: Lab,
}

impl Laid {
    /// Builds a lab and lays the path through it.
    pub fn lay(path: PathId, strait: &Path) -> Result<Self> {
        let (label, stack) = match path {
            PathId::Plain4 => ("plain4", Stack::Dual),
            PathId::Plain6 => ("plain6", Stack::Dual),
            PathId::Express => (Way::Express.label(), Stack::Translated),
            PathId::Device => (Way::Device.label(), Stack::Translated),
            PathId::Native => ("native", Stack::Translated),
            PathId::Tayga => ("tayga", Stack::Translated),
        };
        let lab = Lab::build(label, stack)?;
        let translator = match path {
            PathId::Plain4 | PathId::Plain6 => Translator::Kernel,
            PathId::Express => Translator::Strait(Strait::up(&lab, strait, Way::Express)?),
            PathId::Device => Translator::Strait(Strait::up(&lab, strait, Way::Device)?),
            PathId::Native => Translator::Native(Native::start(&lab, strait)?),
            PathId::Tayga => Translator::Tayga(Tayga::start(&lab)?),
        };
        Ok(Self { path, translator, lab })
    }

    /// What the translator says about itself, for the story that the demo tells.
    pub fn said(&self) -> &str {
        match &self.translator {
            Translator::Strait(strait) => &strait.said,
            Translator::Kernel | Translator::Native(_) | Translator::Tayga(_) => "",
        }
    }

    /// Runs `strait nat64 WORDS` on this path's configuration; `None` on other paths.
    pub fn ask(&self, words: &[&str]) -> Option<Result<String>> {
        match &self.translator {
            Translator::Strait(strait) => Some(run(&mut strait.command(words))),
            Translator::Kernel | Translator::Native(_) | Translator::Tayga(_) => None,
        }
    }
}

/// Why a path cannot be measured on this machine, or `None`.
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

/// Who translates.
enum Translator {
    /// Nobody: the kernel forwards.
    Kernel,
    /// A `nat64` device made by `strait nat64 up`.
    Strait(Strait),
    /// A process in the router.
    Native(#[expect(dead_code, reason = "owned for its Drop")] Native),
    /// A process in the router.
    Tayga(#[expect(dead_code, reason = "owned for its Drop")] Tayga),
}

/// A directory of this process below the system's temporary one; removed with its owner.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn make(label: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("{}{}-{label}", lab::PREFIX, std::process::id()));
        fs::create_dir_all(&path).map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Self(path))
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes what killed runs left outside their namespaces: scratch directories, and Strait's pins in the host's BPF
/// file system. Call it before [`lab::remove_stale`]: taking Strait down needs its router.
pub fn remove_stale(strait: &Path) {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = lab::owner(&name).filter(|&pid| !lab::alive(pid)) else { continue };
        let (scratch, config) = (Scratch(entry.path()), entry.path().join("nat64.toml"));
        if config.exists() {
            for way in [Way::Express, Way::Device] {
                let router = lab::file(&format!("{}{pid}-{}-router", lab::PREFIX, way.label()));
                // The killed run may have got no further than writing its configuration.
                let _ = run(&mut strait_command(strait, &router, &config, &["down"]));
                remove_pins(&way.device(pid));
            }
        }
        drop(scratch);
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

/// `strait nat64 WORDS --config FILE` inside a router.
fn strait_command(exe: &Path, router: &Path, config: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", router.display())).arg("--").arg(exe).arg("nat64");
    command.args(words).arg("--config").arg(config);
    command
}

/// A running `strait nat64`.
struct Strait {
    exe: PathBuf,
    router: PathBuf,
    config: PathBuf,
    /// What `up` printed.
    said: String,
    _scratch: Scratch,
}

impl Strait {
    fn up(lab: &Lab, exe: &Path, way: Way) -> Result<Self> {
        let scratch = Scratch::make(way.label())?;
        let config = scratch.write("nat64.toml", &strait_config(way, std::process::id()))?;
        let router = lab.router.file();
        let mut strait = Self { exe: exe.to_owned(), router, config, said: String::new(), _scratch: scratch };
        strait.said = run(&mut strait.command(&["up"]))?;
        Ok(strait)
    }

    fn command(&self, words: &[&str]) -> Command {
        strait_command(&self.exe, &self.router, &self.config, words)
    }
}

impl Drop for Strait {
    fn drop(&mut self) {
        // The pins live in the host's BPF file system: removing the namespace alone would leave them.
        if let Err(error) = run(&mut self.command(&["down"])) {
            eprintln!("strait bench: {error}");
        }
    }
}

/// The way that packets take through Strait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Translated where they arrive.
    Express,
    /// Through the device.
    Device,
}

impl Way {
    /// Part of the names of namespaces and files.
    fn label(self) -> &'static str {
        match self {
            Way::Express => "express",
            Way::Device => "device",
        }
    }

    /// The name of the translating device. Pins are shared by the whole host, so two labs need two names.
    fn device(self, pid: u32) -> String {
        match self {
            Way::Express => format!("n64e-{pid}"),
            Way::Device => format!("n64-{pid}"),
        }
    }
}

/// The configuration that `strait nat64 up` gets.
fn strait_config(way: Way, pid: u32) -> String {
    let express = match way {
        Way::Express => ", express = [\"r0\", \"r1\"], bypass-netfilter = true",
        Way::Device => "",
    };
    let device = way.device(pid);
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

/// A running `strait nat64 up --target native`; its interface goes with it.
struct Native {
    _job: Job,
    _scratch: Scratch,
}

impl Native {
    fn start(lab: &Lab, exe: &Path) -> Result<Self> {
        let scratch = Scratch::make("native")?;
        let config = scratch.write("native.toml", &strait_config(Way::Device, std::process::id()))?;
        let mut command = strait_command(exe, &lab.router.file(), &config, &["up", "--target", "native"]);
        let mut job = Job::background(&mut command)?;
        // Compiling the program for this processor may take some seconds, the first time.
        job.wait_for(" is up", Duration::from_secs(60))?;
        Ok(Self { _job: job, _scratch: scratch })
    }
}

/// A running Tayga.
struct Tayga {
    _job: Job,
    _scratch: Scratch,
}

impl Tayga {
    fn start(lab: &Lab) -> Result<Self> {
        let scratch = Scratch::make("tayga")?;
        let config = scratch.write("tayga.conf", &tayga_config(&scratch.0))?;
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
        // It says nothing when it is ready. The link has a carrier once it has opened the device.
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

/// Tayga's configuration: the same addresses as Strait's, host by host, because its older versions map no ranges.
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
        assert!("jool".parse::<Choice>().unwrap_err().contains("strait, native, plain and tayga"));
    }

    #[test]
    fn names_fit_where_they_must() {
        // IFNAMSIZ is 16 with the terminating zero; process ids have seven digits at most (PID_MAX_LIMIT).
        assert!(Way::Express.device(4_194_304).len() < 15);
        assert!(strait_config(Way::Device, 1).contains("attach = { device = \"n64-1\" }"));
        assert!(strait_config(Way::Express, 1).contains("\"n64e-1\", express = [\"r0\", \"r1\"], bypass"));
    }
}
