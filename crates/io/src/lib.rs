//! Everything that touches the operating system.
//!
//! In the order in which a run needs them:
//! * [`doctor`]: what this machine can do;
//! * [`netns`]: network namespaces, for tests, benchmarks and the demo;
//! * [`link`]: interfaces, addresses, routes and sysctls, through rtnetlink;
//! * [`bpf`]: eBPF objects: loading, pins, attachment, maps as bytes, test runs;
//! * [`ebpf`]: a compiled P4 program in the kernel: its tables, counters, ports and drop reasons by name;
//! * [`workdir`]: private directories, for what is compiled and loaded;
//! * [`compiler`]: the C compiler, which is trusted with nothing; `confine`: what it gives up;
//! * `object`: compiled C, kept by its content; [`native`]: a compiled P4 program in this process, and bursts of packets;
//! * [`lookup`]: lookups without a program, for measurements;
//! * [`port`]: packet drivers; [`switch`]: workers that carry packets between ports;
//! * [`watch`]: copies of packets for somebody who watches; [`local`]: where a running switch can be found and asked;
//! * [`controller`]: the port of a program through which packets come from the controller and go to it;
//! * [`routers`]: what the routers of a link advertise;
//! * [`duplicates`]: whether a neighbour has an address;
//! * [`ping`]: echo requests;
//! * [`signals`]: signals as values; [`privileges`]: what a process that runs for long gives up;
//! * [`packet`]: a plain raw socket; [`tun`]: an interface for frames of any length;
//! * [`pcap`]: capture files;
//! * [`generator`]: the benchmark's own traffic.
//!
//! Unsafe code lives behind ten doors only: `sys` (the system calls that no crate wraps), `confine` (between fork and exec), [`netns`] (`setns`),
//! [`packet`] (the raw socket), [`generator`] (batched sends), [`port`] (memory and sockets of packet drivers),
//! [`signals`] (masks), [`privileges`] (`prctl`), [`lookup`] (a harness for measurements), [`allocator`] (an option) and [`native`] (machine code that Strait made).

pub mod allocator;
pub mod bpf;
pub mod compiler;
mod confine;
pub mod controller;
pub mod doctor;
pub mod duplicates;
pub mod ebpf;
pub mod error;
pub mod generator;
pub mod link;
pub mod local;
pub mod lookup;
pub mod native;
pub mod netns;
mod object;
pub mod packet;
pub mod pcap;
pub mod ping;
pub mod port;
pub mod privileges;
pub mod routers;
pub mod served;
pub mod signals;
pub mod switch;
mod sys;
pub mod tun;
pub mod watch;
pub mod workdir;

pub use error::{Error, Result};
