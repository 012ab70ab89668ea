//! Networks of any shape. A host is a namespace with mounts and processes of its own, and with a copy of `/etc`, so that daemons run there by the very
//! files and commands that an operator gives them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io::netns::Namespace;
use io::workdir::WorkDir;

use crate::lab::{both, ip, possible};

const PATIENCE: Duration = Duration::from_secs(30);

/// Gives a host its `/etc`, `/run` and file system for pins, and is its first process. A copy of `/etc` is slow, and for kernels without overlays.
const FIRST_PROCESS: &str = r#"
mount -t tmpfs tmpfs /run && mkdir /run/lock /run/etc /run/changed /run/work
mount -t overlay -o lowerdir=/etc,upperdir=/run/changed,workdir=/run/work overlay /etc 2>/dev/null ||
    { cp -a /etc/. /run/etc/ && mount --bind /run/etc /etc; }
mount -t bpf bpf /sys/fs/bpf
! [ -d /var/lib/unbound ] || { mount -t tmpfs tmpfs /var/lib/unbound && chown unbound /var/lib/unbound; }
echo ready
sleep infinity &
wait
"#;

/// Systemd's part on a host without it: runs the command of a service's unit in the background, with the unit's environment.
const SYSTEMCTL: &str = r#"#!/bin/sh -e
verb=$1; shift
for name; do
    unit=/lib/systemd/system/$name.service main=/run/$name.main-process
    if [ -e "$main" ]; then
        kill "$(cat "$main")" 2>/dev/null || true
        while grep -qs '^State:.[^Z]' "/proc/$(cat "$main")/status"; do sleep 0.02; done
        rm "$main"
    fi
    [ "$verb" = restart ] || continue
    set -a
    for file in $(sed -n 's/^EnvironmentFile=-*//p' "$unit"); do ! [ -e "$file" ] || . "$file"; done
    sed -n 's/^ExecStartPre=-*//p' "$unit" | while read -r before; do eval "$before" || true; done
    eval "exec $(sed -n 's/^ExecStart=//p' "$unit")" </dev/null >"/run/$name.log" 2>&1 &
    echo $! >"$main"
done
"#;

/// Whether a test can run that needs these programs. Prints the reason if it cannot.
pub fn has(name: &str, programs: &[&str]) -> bool {
    let find = |program: &str| {
        Command::new("sh").args(["-c", "command -v \"$0\"", program]).env("PATH", path()).output()
    };
    let found = |program: &&&str| find(program).is_ok_and(|output| output.status.success());
    match programs.iter().find(|program| !found(program)) {
        None => possible(name),
        Some(program) => {
            println!("skipped: nat64 {name}: needs {program}");
            false
        }
    }
}

/// Where programs are, those for administrators among them.
fn path() -> String {
    format!("{}:/usr/local/sbin:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// What kernels may be built without, and commands that try it.
pub const BRIDGES: (&str, &str) = ("bridges", "ip link add name probe type bridge");
pub const SESSIONS: (&str, &str) = (
    "connection tracking and NAT for IPv6",
    "nft add table ip6 t; nft 'add chain ip6 t c { type nat hook postrouting priority srcnat; }'
     nft add rule ip6 t c snat to 2001:db8::1; conntrack -L -f ipv6",
);

/// Whether the kernel has what a test needs. Prints what it lacks.
pub fn kernel_has(name: &str, needed: &[(&str, &str)]) -> bool {
    let lacks = |(_, script): &&(&str, &str)| {
        let space =
            Namespace::temporary(&format!("st-net-{}-{name}", std::process::id())).expect("a namespace");
        let tried = Command::new("ip")
            .args(["netns", "exec", space.name(), "sh", "-e", "-c", script])
            .env("PATH", path())
            .output();
        !tried.is_ok_and(|output| output.status.success())
    };
    let lacking = needed.iter().find(lacks);
    if let Some((what, _)) = lacking {
        println!("skipped: nat64 {name}: the kernel has no {what}");
    }
    lacking.is_none()
}

/// A host, whose processes end with the value.
pub struct Host {
    pub space: Namespace,
    first: Child,
    path: String,
}

/// Hosts and links between them, which are removed when the value is dropped.
pub struct Network {
    hosts: BTreeMap<&'static str, Host>,
    /// Commands of the hosts.
    _files: WorkDir,
}

impl Network {
    pub fn new(name: &str, hosts: &[&'static str]) -> Network {
        let files = WorkDir::named(&format!("st-net-{name}-")).expect("a directory");
        let bin = files.path().join("bin");
        std::fs::create_dir(&bin).expect("a directory");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_strait"), bin.join("strait")).expect("a link");
        std::fs::write(bin.join("systemctl"), SYSTEMCTL).expect("a file");
        std::fs::set_permissions(bin.join("systemctl"), PermissionsExt::from_mode(0o755)).expect("a mode");
        let host = |host: &&'static str| (*host, Host::new(name, host, files.path()));
        Network { hosts: hosts.iter().map(host).collect(), _files: files }
    }

    pub fn host(&self, name: &str) -> &Host {
        self.hosts.get(name).unwrap_or_else(|| panic!("the network has no host `{name}`"))
    }

    /// Removes a host with its processes and interfaces, as a power failure does.
    pub fn lose(&mut self, name: &str) {
        // Interfaces first: a dead machine does not say farewell.
        let host = self.hosts.remove(name).expect("a host");
        host.sh("for link in /proc/sys/net/ipv4/conf/eth*; do ip link del ${link##*/}; done");
    }

    /// Connects interfaces of two hosts.
    pub fn link(&self, (one, here): (&str, &str), (other, there): (&str, &str)) {
        let (one, other) = (self.host(one).space.name(), self.host(other).space.name());
        ip(&format!("-n {one} link add {here} type veth peer name {there} netns {other}"));
        ip(&format!("-n {one} link set {here} up"));
        ip(&format!("-n {other} link set {there} up"));
    }

    /// Connects interfaces of hosts to a switch, which is a host as well.
    pub fn switch(&self, switch: &str, ends: &[(&str, &str)]) {
        let space = self.host(switch).space.name();
        ip(&format!("-n {space} link add bridge type bridge"));
        ip(&format!("-n {space} link set bridge up"));
        for (host, interface) in ends {
            self.link((switch, &format!("to-{host}")), (host, interface));
            ip(&format!("-n {space} link set to-{host} master bridge"));
        }
    }

    /// Writes a file of a host. Its path begins with `/etc/`.
    pub fn write(&self, host: &str, path: &str, text: &str) {
        assert!(path.starts_with("/etc/"), "{path} is not in /etc, of which the host has a copy");
        // It may be a link to a file elsewhere. Some services read their files as users of their own.
        let script = format!("mkdir -p \"$(dirname {path})\"; rm -f {path}; cat >{path}; chmod 644 {path}");
        let mut command = self.host(host).command(&script);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("nsenter starts");
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success(), "{host}: {path} cannot be written");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (name, host) in self.hosts.iter().filter(|_| std::thread::panicking()) {
            let told = host.try_sh(
                "for log in /run/*.log; do ! [ -s $log ] || { echo $log:; tail -n 40 $log; }; done
                 # Where packets were lost.
                 ip -s link; nstat -as 2>/dev/null | grep -E 'Err|Discard|Drop|Overflow|NoRoute|Fail' || true",
            );
            println!("on {name}: {}", both(&told));
        }
    }
}

impl Host {
    fn new(network: &str, name: &str, files: &Path) -> Host {
        let space = format!("st-net-{}-{network}-{name}", std::process::id());
        let space = Namespace::temporary(&space).expect("a namespace");
        let mut first = Command::new("nsenter");
        first.arg(format!("--net={}", space.path().display()));
        first.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        first.args(["sh", "-e", "-c", FIRST_PROCESS]);
        let mut first = first.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(first.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n", "the first process of {name} fails");
        let path = format!("{}:{}", files.join("bin").display(), path());
        let host = Host { space, first, path };
        // Duplicate address detection would delay addresses by a second.
        host.sh("sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
        // Nor do tests wait until a host may send its next ICMP error.
        host.sh("sysctl -qw net.ipv4.icmp_ratemask=0 net.ipv6.icmp.ratelimit=0; ip link set lo up");
        host
    }

    /// A shell with these commands on the host, which is not started yet.
    pub fn command(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        let first = self.first.id();
        command.arg(format!("--net={}", self.space.path().display()));
        command.arg(format!("--mount=/proc/{first}/ns/mnt"));
        command.arg(format!("--pid=/proc/{first}/ns/pid_for_children"));
        command.args(["sh", "-e", "-c", script]).env("PATH", &self.path).env("LC_ALL", "C");
        command.stdin(Stdio::null());
        command
    }

    /// Runs commands, which may fail.
    pub fn try_sh(&self, script: &str) -> Output {
        self.command(script).output().expect("nsenter starts")
    }

    /// Runs commands, which must succeed, and returns what they print.
    pub fn sh(&self, script: &str) -> String {
        let output = self.try_sh(script);
        assert!(output.status.success(), "{}: {script}: {}", self.space.name(), both(&output));
        both(&output)
    }

    /// Repeats commands until their output has these words, and returns it.
    pub fn eventually(&self, script: &str, words: &str) -> String {
        let start = Instant::now();
        loop {
            let said = both(&self.try_sh(script));
            if said.contains(words) {
                return said;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "{}: {script}: `{words}` expected: {said}",
                self.space.name()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The other processes of the host end with its first one.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

/// A server of HTTP that gives this answer to whoever asks, until the test ends.
pub fn http(host: &Host, address: &str, body: Vec<u8>) {
    let listener = host.space.run(|| TcpListener::bind(address).expect("listens")).expect("a namespace");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let answer: Arc<[u8]> = [head.as_bytes(), &body].concat().into();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            // Some clients connect and ask nothing.
            std::thread::spawn(move || {
                let (mut stream, mut asked, mut byte) = (stream.expect("a connection"), Vec::new(), [0]);
                while !asked.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                    asked.push(byte[0]);
                }
                let _ = stream.write_all(&answer);
            });
        }
    });
}

/// Starts unbound on a host, with names of its own.
pub fn names(net: &Network, host: &str, address: &str, records: &[&str]) {
    let records: String = records.iter().map(|record| format!("    local-data: '{record}'\n")).collect();
    let text = format!(
        "server:\n    interface: {address}\n    access-control: 0.0.0.0/0 allow\n    access-control: ::/0 allow\n    \
         max-udp-size: 4096\n    edns-buffer-size: 4096\n    module-config: iterator\n    local-zone: ipv4only.arpa. redirect\n{records}"
    );
    net.write(host, "/etc/unbound/unbound.conf.d/lab.conf", &text);
    net.host(host).sh("systemctl restart unbound");
}
