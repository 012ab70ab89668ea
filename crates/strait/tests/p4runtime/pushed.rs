//! Programs of strangers that are pushed: what they say does not become code, and their compiler ends with them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use io::workdir::WorkDir;
use proto::p4::v1::ForwardingPipelineConfig;
use proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use tonic::Code;

use crate::client::{KINDS, RUNTIME, Server, program};

/// A directory that everybody can enter and write, as /tmp.
fn ground() -> WorkDir {
    let dir = WorkDir::named("st-pushed-").expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).expect("ours");
    dir
}

fn config(text: &str) -> Option<ForwardingPipelineConfig> {
    let p4_device_config = text.as_bytes().to_vec();
    Some(ForwardingPipelineConfig { p4info: Some(Default::default()), p4_device_config, cookie: None })
}

fn forward() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/forward.p4");
    fs::read_to_string(file).expect("it is there")
}

/// C in the name of an action, which would make a file when the object is loaded.
fn named(canary: &Path) -> String {
    let path: Vec<String> = canary.to_str().expect("a path").bytes().map(|byte| byte.to_string()).collect();
    let c = format!(
        "a */ __attribute__((constructor)) static void evil(void) {{ extern int creat(const char *, unsigned); \
         char p[] = {{ {}, 0 }}; creat(p, 438); }} /*",
        path.join(",")
    );
    forward().replace("action unknown()", &format!("@name(\"{c}\") action unknown()"))
}

#[test]
fn a_name_is_not_compiled() {
    if !io::native::has_compiler() {
        println!("skipped: a name as C: no C compiler is installed");
        return;
    }
    let dir = ground();
    let canary = dir.path().join("canary");
    let server = Server::start_in("0", "native", &[], &[("STRAIT_CACHE", dir.path())]);
    let (mut client, _stream) = server.primary();
    client.push(Action::VerifyAndCommit, config(&named(&canary))).expect("a name may be any visible text");
    assert!(!canary.exists(), "a name was executed");
    // A name on several lines is refused at its place.
    let text = forward()
        .replace("action unknown()", "@name(\"a */\n#include </etc/shadow>\n/* b\") action unknown()");
    let refused = client.push(Action::VerifyAndCommit, config(&text)).expect_err("a name of three lines");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let said = refused.message();
    assert!(said.contains("E0104") && said.contains("pushed.p4:15") && !said.contains("root:"), "{said}");
}

#[test]
fn a_small_program_that_would_become_large_is_refused_at_its_place() {
    let mut blocks = "control c0(inout metadata m) { apply { } }\n".to_string();
    for i in 1..40 {
        let before = i - 1;
        blocks += &format!(
            "control c{i}(inout metadata m) {{ c{before}() p; c{before}() q; apply {{ p.apply(m); q.apply(m); }} }}\n"
        );
    }
    let text = forward().replace("control V(", &(blocks + "control V("));
    let text = text.replace("        hosts.apply();", "        hosts.apply(); c.apply(m);");
    let text = text.replace("    counter(512", "    c39() c;\n    counter(512");
    let server = Server::empty();
    let (mut client, _stream) = server.primary();
    let before = server.memory();
    for _ in 0..16 {
        let refused =
            client.push(Action::VerifyAndCommit, config(&text)).expect_err("two to the 40 instances");
        let said = refused.message();
        assert!(said.contains("E0502") && said.contains("pushed.p4:"), "{said}");
    }
    assert!(server.memory() < before + 200_000, "{} KiB, and {before} KiB before", server.memory());
}

/// A compiler that never ends.
fn endless(dir: &Path, seconds: u32) -> PathBuf {
    let path = dir.join("endless");
    let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && exit\nsleep {seconds} & sleep {seconds}\n");
    fs::write(&path, text).expect("writes");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("ours");
    path
}

#[test]
fn a_cancelled_push_ends_its_compiler() {
    let dir = ground();
    // A time that tells these processes from others.
    let seconds = 600_000 + std::process::id();
    let compiler = endless(dir.path(), seconds);
    let server = Server::start_in("0", "native", &[], &[("CC", &compiler), ("STRAIT_CACHE", dir.path())]);
    let (mut client, _stream) = server.primary();
    let ours = format!("sleep\0{seconds}\0").into_bytes();
    let sleeping = || {
        let all = fs::read_dir("/proc").expect("processes").flatten();
        all.filter(|dir| fs::read(dir.path().join("cmdline")).is_ok_and(|line| line == ours)).count()
    };
    let until = |wanted: usize| {
        let end = Instant::now() + Duration::from_secs(30);
        while sleeping() != wanted && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(sleeping(), wanted, "compilers");
    };
    let config = ForwardingPipelineConfig {
        p4info: Some(KINDS.clone()),
        p4_device_config: program("kinds.p4"),
        cookie: None,
    };
    let request = proto::p4::v1::SetForwardingPipelineConfigRequest {
        device_id: client.device,
        election_id: client.election,
        action: Action::VerifyAndCommit.into(),
        config: Some(config),
        ..Default::default()
    };
    let mut rpc = client.rpc.clone();
    let push = RUNTIME.spawn(async move { rpc.set_forwarding_pipeline_config(request).await });
    until(2);
    push.abort();
    until(0);
    assert!(client.capabilities(0).is_ok(), "the server goes on");
}
