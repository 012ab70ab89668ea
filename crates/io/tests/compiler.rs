//! What the compiler that is started for a program can see and do: tests with a script in its place, which reports what it sees.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use io::compiler::{Cancel, compile};
use io::workdir::WorkDir;

/// A directory that everybody can enter.
fn ground() -> WorkDir {
    let dir = WorkDir::named("st-compiler-").expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("ours");
    dir
}

/// A script that stands for a compiler. `$out` is the file that it is to make.
fn script(dir: &Path, body: &str) -> PathBuf {
    let path = dir.join("compiler");
    let find = "for word; do [ \"$before\" = -o ] && out=$word; before=$word; done\n";
    fs::write(&path, format!("#!/bin/sh\n{find}{body}")).expect("writes");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
    path
}

/// What a script writes to its object.
fn reported(dir: &Path, body: &str) -> String {
    let compiler = script(dir, body);
    let made = compile(compiler.as_os_str(), &[], "int x;\n", &Cancel::default());
    String::from_utf8(made.unwrap_or_else(|why| panic!("{why}"))).expect("text")
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0"))
}

/// Whether the kernel has Landlock: without it, a confined process reads what everybody may read.
fn has_landlock(dir: &Path) -> bool {
    reported(dir, "cat /etc/passwd >/dev/null 2>&1 && echo no >$out || echo yes >$out").trim() == "yes"
}

#[test]
fn system_calls_that_no_compiler_makes_are_refused() {
    let dir = ground();
    // 38 is ENOSYS. Each of these succeeds, or fails otherwise, for nobody elsewhere.
    let calls = "import ctypes, platform\nlibc = ctypes.CDLL(None, use_errno=True)\narm = platform.machine() == \"aarch64\"\n\
                 for n in [(101, 117), (272, 97), (41, 198), (321, 280), (425, 425), (298, 241)]:\n\
                 \x20   libc.syscall(n[arm], 0, 0, 0, 0, 0)\n    print(ctypes.get_errno())\n";
    if !Path::new("/usr/bin/python3").exists() {
        println!("skipped: system calls of a compiler: needs /usr/bin/python3");
        return;
    }
    let said = reported(dir.path(), &format!("/usr/bin/python3 -I -c '{calls}' >$out"));
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        ["38"; 6],
        "ptrace, unshare, socket, bpf, io_uring_setup, perf_event_open"
    );
    assert_eq!(
        reported(dir.path(), "(sleep 0; echo one) | cat >$out").trim(),
        "one",
        "processes are made as before"
    );
}

#[test]
fn it_is_nobody_without_environment_and_network() {
    let dir = ground();
    let said =
        reported(dir.path(), "{ env; echo id=$(id -u)/$(id -g); echo groups=$(id -G); ulimit -c; } >$out");
    let lines: Vec<&str> = said.lines().collect();
    let names = lines.iter().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let known = ["PATH", "TMPDIR", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_", "id", "groups"];
    let strange: Vec<_> = names.filter(|name| !known.contains(name)).collect();
    assert!(strange.is_empty(), "{said}");
    assert!(lines.last() == Some(&"0"), "core files are written: {said}");
    if !is_root() {
        println!("skipped: a compiler as nobody: needs root");
        return;
    }
    assert!(said.contains("id=65534/65534\n") && said.contains("groups=65534\n"), "{said}");
    let no = reported(dir.path(), "grep NoNewPrivs /proc/self/status >$out 2>&1 || echo hidden >$out");
    assert!(no.trim() == "hidden" || no.contains("1"), "{no}");
}

#[test]
fn it_writes_in_its_directory_only_and_reads_what_the_system_has() {
    let dir = ground();
    let open = dir.path().join("open");
    fs::create_dir(&open).expect("makes");
    fs::set_permissions(&open, Permissions::from_mode(0o1777)).expect("ours");
    let landlock = has_landlock(dir.path());
    let tries = format!(
        "try() {{ echo \"$1: $(eval \"$2\" >/dev/null 2>&1 && echo done || echo refused)\" >>$out; }}\n\
         try own 'echo x >mine'\n\
         try open 'echo x >{0}/planted'\n\
         try tmp 'echo x >/var/tmp/strait-planted-$$'\n\
         try shadow 'cat /etc/shadow'\n\
         try passwd 'cat /etc/passwd'\n\
         try root 'ls /root'\n\
         try proc 'cat /proc/1/cmdline'\n\
         try usr 'ls /usr/bin/env'\n",
        open.display()
    );
    let said = reported(dir.path(), &tries);
    let of = |what: &str| {
        said.lines().filter(|line| line.starts_with(&format!("{what}: "))).any(|line| line.ends_with("done"))
    };
    assert!(of("own") && of("usr"), "{said}");
    if is_root() {
        assert!(!of("shadow"), "{said}");
    }
    if !landlock {
        println!("skipped: what Landlock refuses: the kernel has none");
        return;
    }
    for what in ["open", "tmp", "shadow", "passwd", "root", "proc"] {
        assert!(!of(what), "{what} was not refused:\n{said}");
    }
    assert_eq!(fs::read_dir(&open).expect("ours").count(), 0, "a file was planted");
}

#[test]
fn a_file_that_a_program_includes_is_not_read_and_not_told() {
    if Command::new("cc").arg("--version").output().is_err() {
        println!("skipped: an included file: no C compiler is installed");
        return;
    }
    let dir = ground();
    // The compiler runs, with all that it needs of the system.
    let flags = ["-shared", "-fPIC", "-march=native"].map(OsStr::new);
    let good = compile(
        OsStr::new("cc"),
        &flags,
        "#include <stdint.h>\nuint32_t f(void) { return 1; }\n",
        &Cancel::default(),
    );
    assert!(good.expect("it compiles").starts_with(b"\x7fELF"));
    if !has_landlock(dir.path()) {
        println!("skipped: an included file: the kernel has no Landlock");
        return;
    }
    let secret = dir.path().join("secret.h");
    fs::write(&secret, "THE_SECRET\n").expect("writes");
    for file in [secret.as_path(), Path::new("/etc/passwd"), Path::new("/proc/self/environ")] {
        let c = format!("/* a.p4:7: x */\n#include \"{}\"\n", file.display());
        let refused = compile(OsStr::new("cc"), &flags, &c, &Cancel::default());
        let Err(io::Error::Refused(refusal)) = refused else {
            panic!("{} was read: {refused:?}", file.display())
        };
        assert!(!refusal.text.contains("THE_SECRET") && !refusal.text.contains("root:"), "{}", refusal.text);
        assert!(!refusal.brief().contains("secret.h"), "{}", refusal.brief());
    }
    let c = "/* a.p4:7: x */\nint f(void) { return y; }\n";
    let Err(io::Error::Refused(refusal)) = compile(OsStr::new("cc"), &flags, c, &Cancel::default()) else {
        panic!()
    };
    assert!(
        refusal.brief().contains("a.p4:7") && !refusal.brief().contains("undeclared"),
        "{}",
        refusal.brief()
    );
    assert!(refusal.text.contains("undeclared"), "{}", refusal.text);
}

#[test]
fn it_has_no_network() {
    let dir = ground();
    let said = reported(dir.path(), "readlink /proc/self/ns/net >$out");
    let own = fs::read_link("/proc/self/ns/net").expect("a namespace");
    assert!(said.contains("net:["), "{said}");
    if !Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success()) {
        println!("skipped: a compiler without a network: namespaces are not allowed here");
        return;
    }
    assert_ne!(said.trim(), own.to_string_lossy());
}

#[test]
fn a_cancelled_one_ends_with_all_that_it_has_started() {
    let dir = ground();
    // A time that tells these processes from others.
    let seconds = 500_000 + std::process::id();
    let compiler = script(dir.path(), &format!("sleep {seconds} & sleep {seconds}\n"));
    let cancel = Cancel::default();
    let (thread, other) = (cancel.clone(), compiler.clone());
    let work = std::thread::spawn(move || compile(other.as_os_str(), &[], "int x;\n", &thread));
    let sleeping = || {
        let all = fs::read_dir("/proc").expect("processes").flatten();
        let ours = format!("sleep\0{seconds}\0").into_bytes();
        all.filter(|dir| fs::read(dir.path().join("cmdline")).is_ok_and(|line| line == ours)).count()
    };
    let until = |wanted: usize| {
        let end = Instant::now() + Duration::from_secs(30);
        while sleeping() != wanted && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(sleeping(), wanted);
    };
    until(2);
    cancel.cancel();
    assert!(matches!(work.join().expect("no panic"), Err(io::Error::Cancelled)));
    until(0);
}

#[test]
fn what_is_no_file_is_not_taken() {
    let dir = ground();
    for body in ["ln -s /etc/passwd $out", "mkdir $out", "true", "echo x >a; ln a $out"] {
        let compiler = script(dir.path(), body);
        let made = compile(compiler.as_os_str(), &[], "int x;\n", &Cancel::default());
        assert!(made.is_err(), "{body}: {made:?}");
    }
}

/// A compiler that only root reaches by its path: a wrapper in a checkout below /root.
#[test]
fn a_wrapper_that_nobody_cannot_reach_runs() {
    let dir = WorkDir::named("st-compiler-").expect("a directory");
    assert_eq!(reported(dir.path(), "echo ran >$out"), "ran\n");
}
