//! An open program, and test runs of it without a network.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::Result;
use crate::error::Context;
use crate::sys;

/// An open program.
#[derive(Debug)]
pub struct Program {
    pub(super) fd: OwnedFd,
}

/// The fields of `struct __sk_buff` that a test run can set. The others must be zero (net/bpf/test_run.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkBuff {
    /// The packet mark.
    pub mark: u32,
    /// The index of the hook's interface in the calling thread's namespace; 0 is the loopback.
    pub ifindex: u32,
    /// The index of the interface on which the packet arrived.
    pub ingress_ifindex: u32,
    /// Number of segments of a GSO packet.
    pub gso_segs: u32,
    /// Payload bytes in each segment.
    pub gso_size: u32,
}

/// The result of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The program's return value, such as TC_ACT_REDIRECT.
    pub retval: u32,
    /// The packet after the run.
    pub data: Vec<u8>,
    /// The packet mark after the run.
    pub mark: u32,
    /// Mean duration of a run in nanoseconds.
    pub nanoseconds: u32,
}

/// Size of `struct __sk_buff` in Linux 5.15, whose last field is `hwtstamp`.
const SKB_SIZE: usize = 192;
/// Offsets of fields in `struct __sk_buff`, which is stable ABI.
const MARK: usize = 8;
const INGRESS_IFINDEX: usize = 36;
const IFINDEX: usize = 40;
const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;

impl Program {
    /// Runs the program on a frame, `repeat` times on the same buffer (0 means 1). The frame begins with its Ethernet header, from which
    /// the kernel sets `skb->protocol`.
    pub fn test_run(&self, frame: &[u8], skb: &SkBuff, repeat: u32) -> Result<TestRun> {
        let mut context = skb.to_bytes();
        // No program grows a packet by more than this. A packet that grows by more fails with ENOSPC.
        let mut data = vec![0; frame.len() + 512];
        let result = sys::test_run(self.fd.as_fd(), frame, &mut data, &mut context, repeat)
            .context(|| format!("test-run the program on {} bytes", frame.len()))?;
        data.truncate(result.len);
        let mut mark = [0; 4];
        mark.copy_from_slice(&context[MARK..MARK + 4]);
        Ok(TestRun {
            retval: result.retval,
            data,
            mark: u32::from_ne_bytes(mark),
            nanoseconds: result.duration,
        })
    }

    /// Like [`Program::test_run`], for an XDP program. The frame arrives at the loopback interface of the calling thread's namespace.
    pub fn test_run_xdp(&self, frame: &[u8], repeat: u32) -> Result<TestRun> {
        let mut data = vec![0; frame.len() + 512];
        let result = sys::test_run(self.fd.as_fd(), frame, &mut data, &mut [], repeat)
            .context(|| format!("test-run the program on {} bytes", frame.len()))?;
        data.truncate(result.len);
        Ok(TestRun { retval: result.retval, data, mark: 0, nanoseconds: result.duration })
    }

    /// The kernel's number of the program.
    pub(super) fn number(&self) -> Result<u32> {
        let info = sys::program_info(self.fd.as_fd()).context(|| "inspect the program".to_string())?;
        Ok(info.id)
    }

    /// The descriptor of the program, for attaching.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl SkBuff {
    fn to_bytes(self) -> [u8; SKB_SIZE] {
        let mut bytes = [0; SKB_SIZE];
        let fields = [
            (MARK, self.mark),
            (INGRESS_IFINDEX, self.ingress_ifindex),
            (IFINDEX, self.ifindex),
            (GSO_SEGS, self.gso_segs),
            (GSO_SIZE, self.gso_size),
        ];
        for (offset, value) in fields {
            bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}
