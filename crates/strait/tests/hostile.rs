//! Tests with directories, caches and objects that another user has prepared. Root must not follow, write or load them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use io::workdir::WorkDir;

const NOBODY: Option<u32> = Some(65_534);
const EVIL: &[u8] = b"what root must never use";

/// Whether a test that needs another user can run. Prints the reason if it cannot.
fn root(name: &str) -> bool {
    let is_root = fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0"));
    if !is_root {
        println!("skipped: {name}: needs root");
    }
    is_root
}

/// A directory that everybody can enter, in which a hostile user prepares files.
fn ground() -> WorkDir {
    let dir = WorkDir::named("st-hostile-").expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("ours");
    dir
}

/// Runs `sh -c PREPARATION; exec strait ARGUMENTS`. The preparation knows the process id of strait as `$$`.
fn strait(dir: &Path, cache: &Path, preparation: &str, arguments: &str) -> Output {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/forward.p4");
    let script = format!(
        "{preparation}\nexec {} {}",
        env!("CARGO_BIN_EXE_strait"),
        arguments.replace("PROGRAM", &program.display().to_string())
    );
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).current_dir(dir).env("STRAIT_CACHE", cache);
    command.env("TMPDIR", dir).output().expect("strait starts")
}

/// Creates a directory with an owner and a mode.
fn directory(path: PathBuf, owner: Option<u32>, mode: u32) -> PathBuf {
    fs::create_dir(&path).expect("makes");
    chown(&path, owner, owner).expect("root may");
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("root may");
    path
}

fn is_elf(file: &Path) -> bool {
    fs::read(file).expect("it was built").starts_with(b"\x7fELF")
}

/// Builds a program once, and returns the name of its object in the cache. Returns `None` if there is no compiler.
fn kept_as() -> Option<String> {
    if !io::native::has_compiler() {
        println!("skipped: hostile caches: no C compiler is installed");
        return None;
    }
    let dir = ground();
    let cache = directory(dir.path().join("own"), None, 0o700);
    let out = strait(dir.path(), &cache, "", "build --target native PROGRAM -o out.so");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut kept = fs::read_dir(&cache).expect("the cache").flatten();
    let name = kept.next().expect("one object is kept").file_name();
    assert!(kept.next().is_none(), "and nothing else");
    name.into_string().ok()
}

#[test]
fn caches_that_others_can_write_are_not_used() {
    if !root("hostile caches") {
        return;
    }
    let Some(object) = kept_as() else { return };
    let dir = ground();
    // The name, the owner and mode of the cache and of the object in it, and whether the cache itself is refused.
    let cases = [
        ("another-user", NOBODY, 0o755, NOBODY, 0o644, true),
        ("world-writable", None, 0o777, None, 0o644, true),
        ("sticky", None, 0o1777, None, 0o644, true),
        ("object-of-another-user", None, 0o755, NOBODY, 0o644, false),
        ("writable-object", None, 0o755, None, 0o666, false),
    ];
    for (name, owner, mode, object_owner, object_mode, is_refused) in cases {
        let cache = directory(dir.path().join(name), owner, mode);
        let planted = cache.join(&object);
        fs::write(&planted, EVIL).expect("plants");
        chown(&planted, object_owner, object_owner).expect("root may");
        fs::set_permissions(&planted, Permissions::from_mode(object_mode)).expect("root may");
        let out = strait(dir.path(), &cache, "", &format!("build --target native PROGRAM -o {name}.so"));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{name}: {said}");
        assert!(is_elf(&dir.path().join(format!("{name}.so"))), "{name}: the planted object was used");
        assert_eq!(said.contains("warning: compiled programs are not kept"), is_refused, "{name}: {said}");
        let files = fs::read_dir(&cache).expect("the cache").count();
        assert_eq!(files, 1, "{name}: something was left in the cache");
        if is_refused {
            assert_eq!(fs::read(&planted).expect("it is there"), EVIL, "{name}: nothing is written either");
        }
    }
}

#[test]
fn links_in_a_cache_are_not_followed() {
    if !root("links in a cache") {
        return;
    }
    let Some(object) = kept_as() else { return };
    let dir = ground();
    let cache = directory(dir.path().join("links"), None, 0o755);
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, EVIL).expect("plants");
    symlink(&elsewhere, cache.join(&object)).expect("plants");
    let out = strait(dir.path(), &cache, "", "build --target native PROGRAM -o out.so");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(is_elf(&dir.path().join("out.so")), "the link was followed");
    assert_eq!(fs::read(&elsewhere).expect("it is there"), EVIL, "the link was written through");
}

/// A cache in the home directory of another user, as with a sudo that keeps HOME. That user could replace the whole directory.
#[test]
fn a_cache_in_another_users_home_is_not_made() {
    if !root("a cache in another user's home") {
        return;
    }
    let dir = ground();
    let home = directory(dir.path().join("home"), NOBODY, 0o755);
    if io::native::has_compiler() {
        let cache = home.join(".cache/strait");
        let out = strait(dir.path(), &cache, "", "build --target native PROGRAM -o out.so");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(!home.join(".cache").exists(), "root has written into the home");
    }
}

/// Work directories with predictable names, whose files would be overwritten, compiled or loaded.
#[test]
fn prepared_work_directories_are_not_used() {
    if !root("prepared work directories") {
        return;
    }
    if Command::new("clang").arg("--version").output().is_err() {
        println!("skipped: prepared work directories: needs clang");
        return;
    }
    let dir = ground();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("ours");
    let victim = dir.path().join("victim");
    fs::write(&victim, EVIL).expect("writes");
    let names = ["strait-build-$$", "strait-forward-$$", "strait-$$", "strait-$$-0"];
    let mut preparation = String::new();
    for name in names {
        preparation += &format!("mkdir {name} && chown -R 65534 {name} && chmod 777 {name}\n");
        for file in ["forward.c", "forward.o", "program.c", "program.o", "prepared.so"] {
            preparation += &format!("ln -s {} {name}/{file}\n", victim.display());
        }
    }
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/forward.stf");
    let test = format!("test --target tc {}", case.display());
    for arguments in ["build --target tc PROGRAM -o out.o", &test] {
        let out = strait(dir.path(), dir.path(), &preparation, arguments);
        assert_eq!(fs::read(&victim).expect("it is there"), EVIL, "strait {arguments} followed a link");
        assert!(out.status.success(), "strait {arguments}: {}", String::from_utf8_lossy(&out.stderr));
        let left = fs::read_dir(dir.path()).expect("ours").flatten();
        let left: Vec<_> =
            left.map(|e| e.file_name()).filter(|n| n.to_string_lossy().starts_with("strait-")).collect();
        assert_eq!(left.len() % names.len(), 0, "nothing else is left: {left:?}");
    }
    // A directory for temporary files that belongs to another user cannot be used at all.
    let theirs = directory(dir.path().join("theirs"), NOBODY, 0o755);
    let out = strait(&theirs, dir.path(), "", "build --target tc PROGRAM -o out.o");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(fs::read_dir(&theirs).expect("theirs").count(), 2, "out.o and out.json");
}

/// A program whose names, texts and file name are C, DOT, commands for terminals and paths.
#[test]
fn what_a_program_says_is_not_executed_and_not_shown_as_it_is() {
    let dir = ground();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("ours");
    let canary = dir.path().join("canary");
    let bytes: Vec<String> = canary.to_str().expect("a path").bytes().map(|byte| byte.to_string()).collect();
    let c = format!(
        "*/ __attribute__((constructor)) static void evil(void) {{ extern int creat(const char *, unsigned); \
         char p[] = {{ {}, 0 }}; creat(p, 438); }} /*",
        bytes.join(",")
    );
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let text = fs::read_to_string(cases.join("forward.p4")).expect("it is there");
    let text = text
        .replace("action unknown()", &format!("@name(\"unknown {c}\") action unknown()"))
        .replace("table hosts", &format!("@name(\"hosts %n ../../ \\\" ??/ {c}\") table hosts"))
        .replace("state start {", &format!("@name(\"start {c}\") state start {{"))
        .replace("counter(512,", &format!("@name(\"arrived {c}\") counter(512,"))
        .replace(
            "arrived.count(",
            "log_msg(\"\u{1b}]0;title\u{7}\u{9b}2J */ \\n ??/\"); // *\\/ \u{1b}[2J\n arrived.count(",
        );
    let name = "evil *\u{1b}[2J%n";
    let file = dir.path().join(format!("{name}.p4"));
    fs::write(&file, text).expect("writes");
    fs::write(file.with_extension("stf"), "packet 5 020000000002 020000000001 88b5 00112233\nno_packet\n")
        .expect("writes");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.args(words).current_dir(dir.path()).env("STRAIT_CACHE", dir.path());
        let out = command.output().expect("strait starts");
        for said in [&out.stdout, &out.stderr] {
            let said = String::from_utf8_lossy(said);
            let bad = said.chars().find(|c| abi::text::is_hidden(*c) && !matches!(c, '\n' | '\t'));
            assert_eq!(bad, None, "{words:?}: {said:?}");
        }
        assert!(!canary.exists(), "{words:?}: a name was executed");
        out
    };
    let file = file.to_str().expect("a path");
    let case = file.replace(".p4", ".stf");
    for target in ["interp", "native", "tc", "xdp"] {
        let out = run(&["test", "--target", target, &case]);
        assert!(
            out.status.success(),
            "{target}: {}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    for kind in ["ir", "c", "dot", "p4info"] {
        let out = run(&["build", "--target", kind, file]);
        assert!(out.status.success(), "{kind}: {}", String::from_utf8_lossy(&out.stderr));
    }
    run(&["check", file]);
    run(&["check", "--json", file]);
    let mut capture =
        vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    capture.extend([
        0, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5,
    ]);
    fs::write(dir.path().join("one.pcap"), capture).expect("writes");
    let out = run(&["trace", file, "--in", "5=one.pcap"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    run(&["trace", file, "--in", "5=one.pcap", "--json"]);
}
