//! An open program: test runs without a network.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::Result;
use crate::error::Context;
use crate::sys;

/// An open program.
#[derive(Debug)]
pub struct Program {
    pub(super) fd: OwnedFd,
}

/// The fields of `struct __sk_buff` that a test run lets one set; the others must be zero (net/bpf/test_run.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkBuff {
    /// Packet mark.
    pub mark: u32,
    /// Interface of the hook, in the calling thread's namespace; 0 is the loopback.
    pub ifindex: u32,
    /// Interface that the packet came in by.
    pub ingress_ifindex: u32,
    /// Segments of a GSO packet.
    pub gso_segs: u32,
    /// Payload bytes a segment.
    pub gso_size: u32,
}

/// What a test run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The program's return value, such as TC_ACT_REDIRECT.
    pub retval: u32,
    /// The packet afterwards.
    pub data: Vec<u8>,
    /// The mark afterwards.
    pub mark: u32,
    /// Mean nanoseconds a run.
    pub nanoseconds: u32,
}

/// Bytes of `struct __sk_buff` as of Linux 5.15 (`hwtstamp` is its last field).
const SKB_SIZE: usize = 192;
/// Offsets in it; it is ABI.
const MARK: usize = 8;
const INGRESS_IFINDEX: usize = 36;
const IFINDEX: usize = 40;
const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;

impl Program {
    /// Runs the program on a frame, `repeat` times on the same buffer (0 is 1). The frame begins with its Ethernet header,
    /// of which the kernel takes `skb->protocol`.
    pub fn test_run(&self, frame: &[u8], skb: &SkBuff, repeat: u32) -> Result<TestRun> {
        let mut context = skb.to_bytes();
        // No translation of ours grows a packet by more; what does would show up as ENOSPC.
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

    /// The descriptor, for attaching.
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
