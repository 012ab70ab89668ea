//! Whose a namespace is. A lab has a name, a directory in /run, and a lock there that the kernel releases when the process ends, however it ends.
//!
//! Each namespace is called `strait-LAB-NODE`. The alias of its `lo` names the lab, from before the moment when the namespace has a name. A
//! namespace with this mark is a remain if nobody holds the lock of its lab. Namespaces without the mark are never touched.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use io::netns::{self, Namespace};
use io::signals::{self, Signal};

/// The directory of the labs of this machine.
const LABS: &str = "/run/strait-lab";
/// How the names of namespaces begin.
const PREFIX: &str = "strait-";
/// The alias of `lo`, before the name of the lab.
const MARK: &str = "strait lab ";
/// The copy of the topology in the directory of a lab.
const TOPOLOGY: &str = "topology";
/// How long a process that looks for remains may hold a lock.
const MOMENT: Duration = Duration::from_secs(1);
/// How long processes may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// A lab of this process. Dropping it removes its namespaces and its directory.
pub struct Lab {
    name: String,
    /// Locked until the process ends.
    _lock: File,
}

impl Lab {
    /// Claims a name, and removes what killed labs have left. Without a name, it is the first of `lab`, `lab2`, … that nobody has.
    pub fn claim(name: Option<&str>, topology: &str) -> anyhow::Result<Lab> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(LABS)
            .context("a lab needs root: cannot make /run/strait-lab")?;
        remove_stale()?;
        let mut usual = (1..).map(|n| if n == 1 { "lab".to_string() } else { format!("lab{n}") });
        let lab = match name {
            Some(name) => {
                Lab::lock_soon(name)?.with_context(|| format!("a lab with the name `{name}` runs already"))?
            }
            None => loop {
                let name = usual.next().context("there are too many labs")?;
                if let Some(lab) = Lab::lock(&name)? {
                    break lab;
                }
            },
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(lab.directory())?;
        fs::write(lab.directory().join(TOPOLOGY), topology)?;
        Ok(lab)
    }

    /// Locks a name that another process may have for a moment only, to look for remains.
    fn lock_soon(name: &str) -> anyhow::Result<Option<Lab>> {
        let begun = Instant::now();
        loop {
            match Lab::lock(name)? {
                None if begun.elapsed() < MOMENT => std::thread::sleep(Duration::from_millis(20)),
                locked => return Ok(locked),
            }
        }
    }

    /// Locks a name; `None` if another process has it.
    fn lock(name: &str) -> anyhow::Result<Option<Lab>> {
        let path = lock_file(name);
        loop {
            let file = File::options().write(true).create(true).truncate(false).open(&path);
            let file = file.with_context(|| format!("a lab needs root: cannot open {}", path.display()))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(why)) => return Err(why).context("cannot lock the lab"),
            }
            // Whoever had the lock before may have removed the file meanwhile.
            if fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now.ino())) {
                return Ok(Some(Lab { name: name.to_string(), _lock: file }));
            }
        }
    }

    /// The name, which no other lab has meanwhile.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lab's files: a copy of its topology, and what switches have printed.
    pub fn directory(&self) -> PathBuf {
        directory(&self.name)
    }

    /// Makes the namespace of a node.
    pub fn namespace(&self, node: &str) -> anyhow::Result<Namespace> {
        let mark = format!("{MARK}{}", self.name);
        let name = namespace(&self.name, node);
        // The command inherits the namespace of the thread that starts it.
        let prepare = || {
            let set = Command::new("ip").args(["link", "set", "lo", "up", "alias", &mark]).status();
            let failed = |source| io::Error::System { what: "run `ip` (iproute2)".to_string(), source };
            match set.map_err(failed)?.success() {
                true => Ok(()),
                false => Err(failed(std::io::Error::other("it failed"))),
            }
        };
        Namespace::create_with(&name, prepare).with_context(|| match netns::names().contains(&name) {
            true => format!("the namespace {name} exists, and no lab has made it"),
            false => format!("cannot make the namespace of {node}"),
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for namespace in netns::names().iter().filter(|ns| mark_of(ns).as_deref() == Some(&self.name)) {
            remove(namespace);
        }
        let _ = fs::remove_dir_all(self.directory());
        let _ = fs::remove_file(lock_file(&self.name));
    }
}

/// The topology of a lab that runs.
pub fn topology(name: &str) -> anyhow::Result<String> {
    let path = directory(name).join(TOPOLOGY);
    if !path.exists() {
        let all = fs::read_dir(LABS).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
        let all: Vec<String> = all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        match all.is_empty() {
            true => bail!("no lab runs"),
            false => bail!("no lab `{name}` runs; there are {}", all.join(", ")),
        }
    }
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// The name of a node's namespace.
pub fn namespace(lab: &str, node: &str) -> String {
    format!("{PREFIX}{lab}-{node}")
}

fn directory(name: &str) -> PathBuf {
    Path::new(LABS).join(name)
}

fn lock_file(name: &str) -> PathBuf {
    Path::new(LABS).join(format!("{name}.lock"))
}

/// Removes the namespaces of labs whose process does not exist any more.
fn remove_stale() -> anyhow::Result<()> {
    let mut names: Vec<String> = netns::names().iter().filter_map(|namespace| mark_of(namespace)).collect();
    // A lab that was killed before it had namespaces has left a directory.
    let files = fs::read_dir(LABS).into_iter().flatten().flatten();
    names.extend(
        files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".lock").map(str::to_string)),
    );
    names.sort();
    names.dedup();
    for name in names {
        // Dropping it removes everything that is its own.
        drop(Lab::lock(&name)?);
    }
    Ok(())
}

/// The lab that has made a namespace, by its mark.
fn mark_of(namespace: &str) -> Option<String> {
    if !namespace.starts_with(PREFIX) {
        return None;
    }
    let show =
        Command::new("ip").args(["-json", "-n", namespace, "link", "show", "dev", "lo"]).output().ok()?;
    let links: serde_json::Value = serde_json::from_slice(&show.stdout).ok()?;
    let lab = links[0]["ifalias"].as_str()?.strip_prefix(MARK)?;
    namespace.strip_prefix(PREFIX)?.strip_prefix(lab)?.starts_with('-').then(|| lab.to_string())
}

/// Ends the processes in a namespace, and removes it. What fails is tried again by the next lab.
fn remove(name: &str) {
    let begun = Instant::now();
    loop {
        let pids = pids(name);
        if pids.is_empty() {
            break;
        }
        let is_late = begun.elapsed() > PATIENCE;
        for pid in pids {
            // A shell with a terminal ignores SIGTERM, and ends at SIGHUP.
            let _ = match is_late {
                true => signals::kill(pid),
                false => signals::send(pid, Signal::Terminate).and(signals::send(pid, Signal::Hangup)),
            };
        }
        if begun.elapsed() > PATIENCE * 2 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = Namespace::open(name).map(Namespace::delete);
}

/// The processes of a namespace.
fn pids(namespace: &str) -> Vec<u32> {
    let listed = Command::new("ip").args(["netns", "pids", namespace]).output();
    let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
