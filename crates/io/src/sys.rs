//! The system calls that no crate wraps: bpf(2) as byte-level map access, pins, test runs and tcx links.
//!
//! A door for `unsafe`. Its invariants: every attribute union is a `#[repr(C)]` struct that is zeroed first and only as long
//! as its last field (the kernel takes shorter ones as zero-padded); every pointer in one comes from a slice that lives
//! through the call and is at least as long as the kernel's idea of it, which the callers here check against the map's own
//! `bpf_map_info`; every descriptor that the kernel returns is owned at once.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Commands of bpf(2), as `enum bpf_cmd` numbers them.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgLoad = 5,
    ObjPin = 6,
    ObjGet = 7,
    ProgTestRun = 10,
    ObjInfo = 15,
    LinkCreate = 28,
    LinkDetach = 34,
}

/// `enum bpf_attach_type`: an XDP program on an interface.
pub const ATTACH_XDP: u32 = 37;
/// `enum bpf_attach_type`: tc ingress through tcx (Linux 6.6).
pub const ATTACH_TCX_INGRESS: u32 = 46;
/// `enum bpf_attach_type`: tc egress through tcx (Linux 6.6).
pub const ATTACH_TCX_EGRESS: u32 = 47;
/// `enum bpf_prog_type`: a tc classifier.
pub const PROG_SCHED_CLS: u32 = 3;
/// `enum bpf_prog_type`: XDP.
pub const PROG_XDP: u32 = 6;

/// The call itself. `attr` must be one of the attribute structs below.
fn bpf<A>(command: Command, attr: &mut A) -> io::Result<i64> {
    let size = std::mem::size_of::<A>();
    // SAFETY: `attr` is a live, exclusively borrowed struct of `size` bytes; pointers inside are the callers' to keep alive,
    // see the top of this file.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_long, attr as *mut A, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(fd: i64) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us, close-on-exec, and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn address(bytes: &[u8]) -> u64 {
    bytes.as_ptr() as u64
}

fn address_mut(bytes: &mut [u8]) -> u64 {
    bytes.as_mut_ptr() as u64
}

/// What the kernel tells about a map: the head of `struct bpf_map_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapInfo {
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// The map's number.
    pub id: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value (of one CPU's value in a per-CPU map).
    pub value_size: u32,
    /// Capacity.
    pub max_entries: u32,
    /// Flags it was made with.
    pub flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoAttr {
    fd: u32,
    len: u32,
    info: u64,
}

/// Reads a map's shape.
pub fn map_info(map: BorrowedFd) -> io::Result<MapInfo> {
    let mut info = MapInfo::default();
    let mut attr = InfoAttr {
        fd: map.as_raw_fd() as u32,
        len: std::mem::size_of::<MapInfo>() as u32,
        info: &mut info as *mut MapInfo as u64,
    };
    bpf(Command::ObjInfo, &mut attr)?;
    Ok(info)
}

/// The head of the kernel's `bpf_link_info`, as far as tcx links go.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    prog_id: u32,
    _pad: u32,
    ifindex: u32,
    attach_type: u32,
}

/// The interface that a tcx link holds on to; 0 when it is gone.
pub fn link_ifindex(link: BorrowedFd) -> io::Result<u32> {
    let mut info = LinkInfo::default();
    let mut attr = InfoAttr {
        fd: link.as_raw_fd() as u32,
        len: std::mem::size_of::<LinkInfo>() as u32,
        info: &mut info as *mut LinkInfo as u64,
    };
    bpf(Command::ObjInfo, &mut attr)?;
    Ok(info.ifindex)
}

#[repr(C)]
#[derive(Default)]
struct ElementAttr {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element(map: BorrowedFd, key: u64, value: u64) -> ElementAttr {
    ElementAttr { map: map.as_raw_fd() as u32, key, value, ..Default::default() }
}

/// Looks a key up; `value` must have the map's value size (times CPUs, rounded up to 8, for per-CPU maps). `false` if absent.
pub fn map_lookup(map: BorrowedFd, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    absent_is_false(bpf(Command::MapLookup, &mut element(map, address(key), address_mut(value))))
}

/// Writes an element. `flags`: 0 any, 1 only new, 2 only existing.
pub fn map_update(map: BorrowedFd, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
    let mut attr = ElementAttr { flags, ..element(map, address(key), address(value)) };
    bpf(Command::MapUpdate, &mut attr).map(drop)
}

/// Deletes an element; `false` if there was none.
pub fn map_delete(map: BorrowedFd, key: &[u8]) -> io::Result<bool> {
    absent_is_false(bpf(Command::MapDelete, &mut element(map, address(key), 0)))
}

/// The key after `key` (the first one for `None`); `false` at the end.
pub fn map_next_key(map: BorrowedFd, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<bool> {
    let key = key.map_or(0, address);
    absent_is_false(bpf(Command::MapNextKey, &mut element(map, key, address_mut(next))))
}

fn absent_is_false(result: io::Result<i64>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

#[repr(C)]
#[derive(Default)]
struct MapCreateAttr {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// Makes a map; for probes and tests.
pub fn map_create(kind: u32, key_size: u32, value_size: u32, max_entries: u32) -> io::Result<OwnedFd> {
    bpf(Command::MapCreate, &mut MapCreateAttr { kind, key_size, value_size, max_entries }).map(owned)
}

#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
}

/// An instruction of eBPF (`struct bpf_insn`): the destination is in the lower half of `registers`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Operation.
    pub code: u8,
    /// Source and destination.
    pub registers: u8,
    /// Where in memory, how far to jump.
    pub offset: i16,
    /// Constant.
    pub value: i32,
}

/// Loads a program of few instructions.
pub fn load_program(kind: u32, code: &[Instruction]) -> io::Result<OwnedFd> {
    let license = b"Dual MIT/GPL\0";
    let (instructions, code) = (code.len() as u32, code.as_ptr() as u64);
    bpf(Command::ProgLoad, &mut LoadAttr { kind, instructions, code, license: address(license) }).map(owned)
}

/// Loads the two instructions `r0 = value; exit` as a program; for probes.
pub fn load_return(kind: u32, value: i32) -> io::Result<OwnedFd> {
    let mut code = [0u8; 16];
    code[0] = 0xb7; // BPF_ALU64 | BPF_MOV | BPF_K, to r0
    code[4..8].copy_from_slice(&value.to_ne_bytes());
    code[8] = 0x95; // BPF_JMP | BPF_EXIT
    let license = b"Dual MIT/GPL\0";
    bpf(
        Command::ProgLoad,
        &mut LoadAttr { kind, instructions: 2, code: address(&code), license: address(license) },
    )
    .map(owned)
}

#[repr(C)]
#[derive(Default)]
struct ObjectAttr {
    path: u64,
    fd: u32,
    flags: u32,
}

/// Pins a map, program or link at a path of the BPF file system.
pub fn pin(object: BorrowedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let bytes = path.as_bytes_with_nul();
    bpf(Command::ObjPin, &mut ObjectAttr { path: address(bytes), fd: object.as_raw_fd() as u32, flags: 0 })
        .map(drop)
}

/// Opens what is pinned at a path.
pub fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    bpf(Command::ObjGet, &mut ObjectAttr { path: address(path.as_bytes_with_nul()), fd: 0, flags: 0 })
        .map(owned)
}

#[repr(C)]
#[derive(Default)]
struct LinkAttr {
    program: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    _pad: u32,
    revision: u64,
}

/// Attaches a program to an interface of the calling thread's network namespace.
pub fn link_create(program: BorrowedFd, ifindex: u32, attach_type: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    bpf(Command::LinkCreate, &mut LinkAttr { program, ifindex, attach_type, ..Default::default() }).map(owned)
}

/// Takes a link's program off at once, whoever else holds the link.
pub fn link_detach(link: BorrowedFd) -> io::Result<()> {
    let mut attr: u32 = link.as_raw_fd() as u32;
    bpf(Command::LinkDetach, &mut attr).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct TestAttr {
    program: u32,
    retval: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
}

/// What a test run returned: the program's value, the packet's length in `out`, and nanoseconds a run.
pub struct TestResult {
    /// The program's return value.
    pub retval: u32,
    /// Bytes written to the output buffer.
    pub len: usize,
    /// Mean nanoseconds a run.
    pub duration: u32,
}

/// BPF_PROG_TEST_RUN. `context` is a `struct __sk_buff` in and out, or empty.
pub fn test_run(
    program: BorrowedFd,
    data: &[u8],
    out: &mut [u8],
    context: &mut [u8],
    repeat: u32,
) -> io::Result<TestResult> {
    let context_size = context.len() as u32;
    let context = if context.is_empty() { 0 } else { address_mut(context) };
    let mut attr = TestAttr {
        program: program.as_raw_fd() as u32,
        size_in: data.len() as u32,
        size_out: out.len() as u32,
        data_in: address(data),
        data_out: address_mut(out),
        repeat,
        context_size_in: context_size,
        context_size_out: context_size,
        context_in: context,
        context_out: context,
        ..Default::default()
    };
    bpf(Command::ProgTestRun, &mut attr)?;
    Ok(TestResult {
        retval: attr.retval,
        len: (attr.size_out as usize).min(out.len()),
        duration: attr.duration,
    })
}

/// Whether the kernel gives out an AF_XDP socket.
pub fn xdp_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(owned(i64::from(fd))) }
}

/// Mounts the BPF file system on its usual directory.
pub fn mount_bpffs() -> io::Result<()> {
    let (name, dir) = (c"bpf", c"/sys/fs/bpf");
    // SAFETY: all strings are constants with a NUL; there is no data.
    let result = unsafe {
        libc::mount(
            name.as_ptr(),
            dir.as_ptr(),
            name.as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV,
            std::ptr::null(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a path lies on a BPF file system.
pub fn is_bpffs(path: &Path) -> io::Result<bool> {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `statfs` is plain data, for which zero is valid.
    let mut info: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated, and `info` is exclusively ours.
    let result = unsafe { libc::statfs(path.as_ptr(), &mut info) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info.f_type as i64 == BPF_FS_MAGIC) }
}

/// The effective user id.
pub fn euid() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
