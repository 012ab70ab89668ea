//! The C compiler that is started for a program. The program may be a stranger's, so the compiler is trusted with nothing: it runs as nobody
//! with an empty environment, without a network, with limits of time, memory and output, and writes in a directory of its own
//! ([`crate::confine`]). Its texts are not for those who sent the program: they may quote what it has read.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub use abi::Cancel;

use crate::confine::{self, Confinement, Identity, NOBODY};
use crate::error::Context;
use crate::workdir::WorkDir;
use crate::{Error, Result};

/// The longest time that a compiler may take.
const LONGEST: Duration = Duration::from_secs(300);
/// The most bytes of a compiler's texts that are kept. The rest is read and dropped.
const MOST_TEXT: usize = 64 << 10;
/// The largest object that is taken.
const MOST_OBJECT: u64 = 256 << 20;
/// How often a compiler that says nothing is looked after, in milliseconds.
const LOOK: i32 = 20;
/// The names of the files in the compiler's directory.
const SOURCE: &str = "program.c";
const OBJECT: &str = "program.out";

/// Compiles C with a compiler, and returns the object. `arguments` stand before the names of the source and of the object.
pub fn compile(compiler: &OsStr, arguments: &[&OsStr], c: &str, cancel: &Cancel) -> Result<Vec<u8>> {
    // Nobody reaches the inner directory except through a descriptor of it, because the outer one is this user's.
    let outer = WorkDir::new()?;
    let inner = outer.path().join("compiler");
    let make = || -> std::io::Result<()> {
        DirBuilder::new().mode(0o700).create(&inner)?;
        crate::workdir::create(&inner.join(SOURCE), c.as_bytes())?;
        if Identity::here() == Identity::Switched {
            chown(inner.join(SOURCE), Some(NOBODY), Some(NOBODY))?;
            chown(&inner, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    };
    make().context(|| format!("make a directory for the compiler in {}", outer.path().display()))?;
    let name = compiler.to_string_lossy();
    let program = Program::find(compiler)?;
    let start = |alone: bool| -> std::io::Result<Child> {
        let mut command = Command::new(&program.path);
        command.args(arguments).arg("-o").arg(OBJECT).arg(SOURCE);
        // The compiler's own temporary files are in its directory, too.
        command.env_clear().env("PATH", PATH).env("TMPDIR", ".").env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Confinement::new(&inner, &program.readable, program.opened.as_ref(), alone)?.apply(&mut command);
        command.spawn()
    };
    // A system may allow a user namespace to nobody but root, and say so late.
    let child = start(true).or_else(|why| match Identity::here() {
        Identity::Mapped => start(false),
        Identity::Switched => Err(why),
    });
    let child = child.map_err(|why| Error::Compiler(format!("cannot run {name}: {why}")))?;
    let (status, text) = run(child, &name, cancel)?;
    if !status.success() {
        return Err(Error::Refused(Box::new(Refusal::new(&name, c, &text))));
    }
    take(&inner.join(OBJECT)).context(|| format!("read what {name} has made"))
}

/// Where confined processes look for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Reads an object that a process without trust has made: a file of bounded size, not a link to one.
fn take(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 || found.len() > MOST_OBJECT {
        return Err(std::io::Error::other("it is no file of an acceptable size"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_OBJECT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The compiler as a file.
struct Program {
    /// The path to execute.
    path: PathBuf,
    /// What the compiler needs for reading: its own directory, or what it is installed below.
    readable: Vec<PathBuf>,
    /// The opened file, if nobody cannot reach it by its path.
    opened: Option<File>,
}

impl Program {
    fn find(compiler: &OsStr) -> Result<Program> {
        let missing = |why: &dyn std::fmt::Display| {
            Error::Compiler(format!("cannot run {}: {why}", compiler.to_string_lossy()))
        };
        let named = found(compiler).ok_or_else(|| missing(&"there is no such program"))?;
        let real = named.canonicalize().map_err(|why| missing(&why))?;
        let mut readable = Vec::new();
        for file in [&named, &real] {
            let Some(directory) = file.parent() else { continue };
            readable.push(match directory.parent() {
                // A compiler in …/bin has its parts beside it.
                Some(above) if directory.ends_with("bin") && above != Path::new("/") => above.to_path_buf(),
                _ => directory.to_path_buf(),
            });
        }
        readable.retain(|path| path != Path::new("/"));
        let is_reachable = real
            .ancestors()
            .skip(1)
            .all(|above| above.symlink_metadata().is_ok_and(|found| found.mode() & 0o001 != 0));
        if is_reachable || Identity::here() == Identity::Mapped {
            return Ok(Program { path: named, readable, opened: None });
        }
        let opened = File::open(&real).map_err(|why| missing(&why))?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        Ok(Program { path, readable, opened: Some(opened) })
    }
}

/// The file of a command, as execvp finds it.
fn found(command: &OsStr) -> Option<PathBuf> {
    if command.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(command).ok();
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(PATH));
    let is_program = |path: &PathBuf| {
        path.is_absolute() && path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|directory| directory.join(command)).find(is_program)
}

/// Waits for the end of a process that leads its group. It is ended when its time is over, and when the work is cancelled. Returns its status and the beginning of its errors.
fn run(mut child: Child, name: &str, cancel: &Cancel) -> Result<(ExitStatus, Vec<u8>)> {
    let begun = Instant::now();
    let mut errors = child.stderr.take();
    if let Some(errors) = &errors {
        confine::set_nonblocking(errors).context(|| format!("read from {name}"))?;
    }
    let (mut text, mut ended) = (Vec::new(), None);
    let outcome = loop {
        match &errors {
            Some(pipe) => confine::wait_readable(pipe, LOOK),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        if let Some(pipe) = &mut errors
            && !drain(pipe, &mut text)
        {
            errors = None;
        }
        // A process that the compiler left behind may keep the pipe open.
        if let Some(status) = ended {
            break Ok(status);
        }
        if cancel.is_cancelled() {
            break Err(Error::Cancelled);
        }
        if begun.elapsed() > LONGEST {
            break Err(Error::Compiler(format!("{name} took longer than {} s", LONGEST.as_secs())));
        }
        match confine::has_ended(child.id()) {
            // The leader is waited for after its group was ended, so that the group's number is still its own. The texts are read once more.
            true => {
                confine::kill_group(child.id());
                ended = Some(child.wait().context(|| format!("wait for {name}"))?);
            }
            false => continue,
        }
    };
    if outcome.is_err() {
        confine::kill_group(child.id());
        let _ = child.wait();
    }
    Ok((outcome?, text))
}

/// Reads what there is, and keeps the first bytes. Returns false at the end.
fn drain(pipe: &mut impl Read, text: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                let room = MOST_TEXT.saturating_sub(text.len());
                text.extend(&buffer[..count.min(room)]);
            }
            Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
            Err(why) => return why.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// A program that a C compiler refused.
#[derive(Debug)]
pub struct Refusal {
    /// The compiler as it was named, such as `cc`.
    pub compiler: String,
    /// The place in the P4 source of the line that was refused, if it is known.
    pub place: Option<String>,
    /// What the compiler said, for whoever may read the files of this machine.
    pub text: String,
}

impl Refusal {
    fn new(compiler: &str, c: &str, text: &[u8]) -> Refusal {
        let text = abi::text::lines(&String::from_utf8_lossy(text));
        Refusal { compiler: compiler.to_string(), place: place(c, &text), text }
    }

    /// The refusal without the compiler's text, which may quote a file of this machine: for those who sent the program.
    pub fn brief(&self) -> String {
        let place = self.place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
        format!("the C compiler refused the program{place}; the server's log has its text")
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = self.place.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
        write!(f, "{} does not take the program{place}:\n{}", self.compiler, self.text)
    }
}

/// The place in the P4 source of the first error: that of the last comment `/* file:line: … */` before the line of C.
fn place(c: &str, text: &str) -> Option<String> {
    let line = text.lines().find_map(|said| {
        let (number, rest) = said.strip_prefix(SOURCE)?.strip_prefix(':')?.split_once(':')?;
        rest.contains("error:").then(|| number.parse::<usize>().ok())?
    })?;
    let before: Vec<&str> = c.lines().take(line).collect();
    before.iter().rev().find_map(|line| {
        let (place, _) = line.trim_start().strip_prefix("/* ")?.split_once(": ")?;
        let (_, number) = place.rsplit_once(':')?;
        number.parse::<u32>().is_ok().then(|| place.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_error_is_that_of_the_p4() {
        let c = "int f(void) {\n    /* a.p4:3: x = y; */\n    int x = 1;\n    /* note */\n    return z;\n}\n";
        let said = "program.c: In function 'f':\nprogram.c:5:12: error: 'z' undeclared\n";
        assert_eq!(place(c, said).as_deref(), Some("a.p4:3"));
        assert_eq!(place(c, "program.c:1:1: error: x"), None);
        assert_eq!(place(c, "cc: fatal"), None);
    }

    #[test]
    fn a_cancelled_compiler_ends_with_its_children() {
        let cancel = Cancel::default();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & sleep 600"]).stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let other = cancel.clone();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            other.cancel();
        });
        let ended = run(command.spawn().expect("it starts"), "sh", &cancel);
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        canceller.join().expect("it ends");
    }

    #[test]
    fn the_texts_of_a_compiler_are_bounded() {
        let mut command = Command::new("sh");
        command.args(["-c", "yes error | head -c 10000000 >&2; exit 3"]).stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (status, text) =
            run(command.spawn().expect("it starts"), "sh", &Cancel::default()).expect("it ends");
        assert_eq!((status.code(), text.len()), (Some(3), MOST_TEXT));
    }
}
