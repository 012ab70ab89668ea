//! The system calls that no crate wraps: bpf(2) as byte-level map access, pins, test runs and tcx links; and what io asks of rustix.
//!
//! A module with `unsafe`. Its invariants: Every attribute union is a `#[repr(C)]` struct that is zeroed first and ends with its last used
//! field; the kernel treats a shorter attribute as padded with zeros. Every pointer in it comes from a slice that outlives the call. The
//! slice is at least as long as the kernel assumes; the callers check that against the map's `bpf_map_info`. Every descriptor that the
//! kernel returns is owned at once.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The commands of bpf(2), with the numbers of `enum bpf_cmd`.
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
    MapNextId = 12,
    ProgById = 13,
    MapById = 14,
    ObjInfo = 15,
    ProgQuery = 16,
    MapLookupAndDelete = 21,
    MapLookupBatch = 24,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkDetach = 34,
}

/// `enum bpf_attach_type`: an XDP program on an interface.
pub const ATTACH_XDP: u32 = 37;
/// XDP_FLAGS_SKB_MODE: the kernel's stack runs the XDP program.
pub const XDP_GENERIC: u32 = 1 << 1;
/// BPF_F_BEFORE: at a tcx hook, the program runs before those that are attached already.
pub const BEFORE_OTHERS: u32 = 1 << 3;
/// XDP_FLAGS_DRV_MODE: the driver runs the XDP program.
pub const XDP_NATIVE: u32 = 1 << 2;
/// `enum bpf_attach_type`: tc ingress through tcx (Linux 6.6).
pub const ATTACH_TCX_INGRESS: u32 = 46;
/// `enum bpf_attach_type`: tc egress through tcx (Linux 6.6).
pub const ATTACH_TCX_EGRESS: u32 = 47;
/// `enum bpf_prog_type`: a tc classifier.
pub const PROG_SCHED_CLS: u32 = 3;
/// `enum bpf_prog_type`: XDP.
pub const PROG_XDP: u32 = 6;

/// Calls bpf(2). `attr` must be one of the attribute structs below.
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

/// The properties of a map: the first fields of `struct bpf_map_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapInfo {
    /// `enum bpf_map_type`.
    pub kind: u32,
    /// The id of the map.
    pub id: u32,
    /// Size of a key in bytes.
    pub key_size: u32,
    /// Size of a value in bytes; in a per-CPU map, of one CPU's value.
    pub value_size: u32,
    /// Largest number of elements.
    pub max_entries: u32,
    /// The flags with which the map was created.
    pub flags: u32,
    /// The name, padded with zeros.
    pub name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct InfoAttr {
    fd: u32,
    len: u32,
    info: u64,
}

/// Reads the properties of a map.
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

/// The first fields of the kernel's `bpf_link_info`, for tcx links.
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

/// The index of the interface of a tcx or XDP link; 0 if the interface is gone, or if the link was detached.
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

/// Looks up a key. `value` must have the map's value size; for a per-CPU map that is the size rounded up to 8, times the number of CPUs.
/// Returns `false` if the key is absent.
pub fn map_lookup(map: BorrowedFd, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    absent_is_false(bpf(Command::MapLookup, &mut element(map, address(key), address_mut(value))))
}

/// Writes an element. `flags`: 0 creates or updates, 1 only creates, 2 only updates.
pub fn map_update(map: BorrowedFd, key: &[u8], value: &[u8], flags: u64) -> io::Result<()> {
    let mut attr = ElementAttr { flags, ..element(map, address(key), address(value)) };
    bpf(Command::MapUpdate, &mut attr).map(drop)
}

/// The kernel's monotonic clock in nanoseconds, which programs read with `bpf_ktime_get_ns`.
pub fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Appends a value to a queue. A queue has no keys.
pub fn map_push(map: BorrowedFd, value: &[u8]) -> io::Result<()> {
    bpf(Command::MapUpdate, &mut element(map, 0, address(value))).map(drop)
}

/// Takes the first value of a queue. Returns `false` if it is empty.
pub fn map_pop(map: BorrowedFd, value: &mut [u8]) -> io::Result<bool> {
    absent_is_false(bpf(Command::MapLookupAndDelete, &mut element(map, 0, address_mut(value))))
}

/// Deletes an element. Returns `false` if the key is absent.
pub fn map_delete(map: BorrowedFd, key: &[u8]) -> io::Result<bool> {
    absent_is_false(bpf(Command::MapDelete, &mut element(map, address(key), 0)))
}

/// Reads the key after `key`, or the first key for `None`. Returns `false` at the end.
pub fn map_next_key(map: BorrowedFd, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<bool> {
    let key = key.map_or(0, address);
    absent_is_false(bpf(Command::MapNextKey, &mut element(map, key, address_mut(next))))
}

#[repr(C)]
#[derive(Default)]
struct BatchAttr {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    element_flags: u64,
    flags: u64,
}

/// Reads all elements of an array without values for each CPU (Linux 5.6). The lengths of the slices are the sizes of all its keys and of all its
/// values. Returns the number of elements.
pub fn map_lookup_all(map: BorrowedFd, keys: &mut [u8], values: &mut [u8], count: u32) -> io::Result<u32> {
    let mut last = [0; 4];
    let mut attr = BatchAttr {
        to: address_mut(&mut last),
        keys: address_mut(keys),
        values: address_mut(values),
        count,
        map: map.as_raw_fd() as u32,
        ..Default::default()
    };
    absent_is_false(bpf(Command::MapLookupBatch, &mut attr))?;
    Ok(attr.count)
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
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

/// Creates a map, for probes and tests.
pub fn map_create(kind: u32, key_size: u32, value_size: u32, max_entries: u32) -> io::Result<OwnedFd> {
    let mut attr = MapCreateAttr { kind, key_size, value_size, max_entries, ..Default::default() };
    bpf(Command::MapCreate, &mut attr).map(owned)
}

/// The name of the maps that hold a note.
const NOTE: &[u8; 16] = b"strait_note\0\0\0\0\0";

/// Creates an array with one element, which holds a text. Its name is that of all such maps.
pub fn note_create(text: &[u8]) -> io::Result<OwnedFd> {
    const ARRAY: u32 = 2;
    let value_size = text.len().max(1) as u32;
    let mut attr = MapCreateAttr {
        kind: ARRAY,
        key_size: 4,
        value_size,
        max_entries: 1,
        name: *NOTE,
        ..Default::default()
    };
    let map = bpf(Command::MapCreate, &mut attr).map(owned)?;
    if !text.is_empty() {
        map_update(map.as_fd(), &0u32.to_ne_bytes(), text, 0)?;
    }
    Ok(map)
}

/// The text of a map that [`note_create`] made; `None` if it is another map.
pub fn note_read(map: BorrowedFd) -> io::Result<Option<Vec<u8>>> {
    let info = map_info(map)?;
    if (info.kind, info.key_size, info.max_entries, &info.name) != (2, 4, 1, NOTE) {
        return Ok(None);
    }
    let mut text = vec![0; info.value_size as usize];
    map_lookup(map, &0u32.to_ne_bytes(), &mut text)?;
    Ok(Some(text))
}

/// Returns when all programs have ended that are running now, on any CPU: an RCU grace period.
///
/// No system call is for that alone, but a write to an array of maps is documented to do it, so that its caller knows that nobody
/// uses the old inner map (Linux 5.0, commit 1ae80cf31938).
pub fn grace_period() -> io::Result<()> {
    const ARRAY: u32 = 2;
    const ARRAY_OF_MAPS: u32 = 12;
    let inner = map_create(ARRAY, 4, 4, 1)?;
    let inner_map = inner.as_raw_fd() as u32;
    let mut attr = MapCreateAttr {
        kind: ARRAY_OF_MAPS,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        inner_map,
        ..Default::default()
    };
    let outer = bpf(Command::MapCreate, &mut attr).map(owned)?;
    map_update(outer.as_fd(), &0u32.to_ne_bytes(), &inner_map.to_ne_bytes(), 0)
}

#[repr(C)]
#[derive(Default)]
struct LoadAttr {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
}

/// An eBPF instruction (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// The operation code.
    pub code: u8,
    /// The source register (high four bits) and the destination register (low four bits).
    pub registers: u8,
    /// The offset of a memory access or a jump.
    pub offset: i16,
    /// The immediate value.
    pub value: i32,
}

/// Loads a short program.
pub fn load_program(kind: u32, code: &[Instruction]) -> io::Result<OwnedFd> {
    let license = b"Dual MIT/GPL\0";
    let (instructions, code) = (code.len() as u32, code.as_ptr() as u64);
    bpf(Command::ProgLoad, &mut LoadAttr { kind, instructions, code, license: address(license) }).map(owned)
}

/// Loads a program with the two instructions `r0 = value; exit`, for probes.
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

/// Pins a map, program or link at a path in the BPF file system.
pub fn pin(object: BorrowedFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let bytes = path.as_bytes_with_nul();
    bpf(Command::ObjPin, &mut ObjectAttr { path: address(bytes), fd: object.as_raw_fd() as u32, flags: 0 })
        .map(drop)
}

/// Opens the object that is pinned at a path.
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
    link_create_with(program, ifindex, attach_type, 0)
}

/// Like [`link_create`], with the flags of the attach type, such as [`XDP_NATIVE`].
pub fn link_create_with(
    program: BorrowedFd,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    bpf(Command::LinkCreate, &mut LinkAttr { program, ifindex, attach_type, flags, ..Default::default() })
        .map(owned)
}

#[repr(C)]
#[derive(Default)]
struct UpdateAttr {
    link: u32,
    program: u32,
    flags: u32,
    old: u32,
}

/// Replaces the program of a link. A packet meets the one or the other.
pub fn link_update(link: BorrowedFd, program: BorrowedFd) -> io::Result<()> {
    let (link, program) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    bpf(Command::LinkUpdate, &mut UpdateAttr { link, program, ..Default::default() }).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct QueryAttr {
    ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    _pad: u32,
    program_flags: u64,
    links: u64,
    link_flags: u64,
    revision: u64,
}

/// The ids of the programs at a tcx hook of an interface of the calling thread's namespace.
pub fn programs_at(ifindex: u32, attach_type: u32) -> io::Result<Vec<u32>> {
    let mut ids = [0u32; 64];
    let mut attr = QueryAttr {
        ifindex,
        attach_type,
        programs: ids.as_mut_ptr() as u64,
        count: ids.len() as u32,
        ..Default::default()
    };
    match bpf(Command::ProgQuery, &mut attr) {
        Ok(_) => Ok(ids.into_iter().take(attr.count as usize).collect()),
        // Nothing was ever attached there.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[repr(C)]
#[derive(Default)]
struct IdAttr {
    id: u32,
    next: u32,
    flags: u32,
}

/// Opens a program by its id.
pub fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    bpf(Command::ProgById, &mut IdAttr { id, ..Default::default() }).map(owned)
}

/// Opens a map by its id.
pub fn map_by_id(id: u32) -> io::Result<OwnedFd> {
    bpf(Command::MapById, &mut IdAttr { id, ..Default::default() }).map(owned)
}

/// The id of the map after this one; `None` at the end. Before the first is 0.
pub fn next_map(id: u32) -> io::Result<Option<u32>> {
    let mut attr = IdAttr { id, ..Default::default() };
    Ok(absent_is_false(bpf(Command::MapNextId, &mut attr))?.then_some(attr.next))
}

/// The first fields of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramInfo {
    /// The type of the program, one of the kernel's `enum bpf_prog_type`.
    pub kind: u32,
    /// The id of the program.
    pub id: u32,
    /// A hash of the instructions.
    pub tag: [u8; 8],
    lengths: [u32; 2],
    instructions: [u64; 2],
    load_time: u64,
    created_by: u32,
    maps: u32,
    map_ids: u64,
    /// The name, padded with zeros.
    pub name: [u8; 16],
}

/// Reads the properties of a program.
pub fn program_info(program: BorrowedFd) -> io::Result<ProgramInfo> {
    let mut info = ProgramInfo::default();
    let mut attr = InfoAttr {
        fd: program.as_raw_fd() as u32,
        len: std::mem::size_of::<ProgramInfo>() as u32,
        info: &mut info as *mut ProgramInfo as u64,
    };
    bpf(Command::ObjInfo, &mut attr)?;
    Ok(info)
}

/// Detaches the program of a link at once, even if others hold the link too.
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

/// The result of a test run.
pub struct TestResult {
    /// The program's return value.
    pub retval: u32,
    /// Number of bytes written to the output buffer.
    pub len: usize,
    /// Mean duration of a run in nanoseconds.
    pub duration: u32,
}

/// Runs a program on a packet (BPF_PROG_TEST_RUN). `context` is a `struct __sk_buff` that the program reads and writes, or empty.
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

/// Opens an AF_XDP socket, to test whether the kernel allows it.
pub fn xdp_socket() -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    Ok(socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?)
}

/// Mounts the BPF file system on /sys/fs/bpf, so that no other user can enter it.
pub fn mount_bpffs() -> io::Result<()> {
    use rustix::mount::{MountFlags, mount};
    Ok(mount(c"bpf", c"/sys/fs/bpf", c"bpf", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0700")?)
}

/// Whether a path is on a BPF file system.
pub fn is_bpffs(path: &Path) -> io::Result<bool> {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    Ok(rustix::fs::statfs(path)?.f_type as i64 == BPF_FS_MAGIC)
}

/// The effective user id of this process.
pub fn euid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A new file in memory, without a name in any directory.
pub fn memory_file(name: &CStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?)
}

/// `struct ifreq` with a pointer.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    _rest: [u8; 16],
}

/// A command of ethtool. `value` is the command's structure: the number of the command, and its value or the room for its answer.
pub fn ethtool(interface: &str, value: &mut [u32]) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    let mut request =
        InterfaceRequest { name: [0; libc::IFNAMSIZ], data: value.as_mut_ptr(), _rest: [0; 16] };
    request.name[..interface.len()].copy_from_slice(interface.as_bytes());
    // SAFETY: the request is a live `struct ifreq` whose name ends in a zero. Its pointer is to the live structure of one of the commands of
    // [`crate::link::features`], which has the size that the kernel assumes.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
