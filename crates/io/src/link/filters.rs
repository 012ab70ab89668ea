//! Removes Strait's own clsact filters and qdiscs, on kernels without tcx.

use netlink_packet_route::RouteNetlinkMessage as Rtnl;
use netlink_packet_route::tc::{TcHandle, TcMessage};

use super::Handle;
use crate::Result;
use crate::error::Context;

/// Deletes the filters with a priority from one hook of an interface. It is no error if there are none.
pub(crate) fn delete_filters(ifindex: u32, ingress: bool, priority: u16) -> Result<()> {
    let mut message = TcMessage::default();
    message.header.index = ifindex as i32;
    // TC_H_CLSACT with TC_H_MIN_INGRESS or TC_H_MIN_EGRESS (linux/pkt_sched.h).
    message.header.parent = TcHandle { major: 0xffff, minor: if ingress { 0xfff2 } else { 0xfff3 } };
    message.header.info = u32::from(priority) << 16;
    match Handle::open()?.act(Rtnl::DelTrafficFilter(message), 0) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(()),
        other => other.context(|| format!("delete a filter of interface {ifindex}")),
    }
}

/// Whether one hook of an interface has a filter with a priority.
pub(crate) fn has_filter(ifindex: u32, ingress: bool, priority: u16) -> Result<bool> {
    let mut message = TcMessage::default();
    message.header.index = ifindex as i32;
    message.header.parent = TcHandle { major: 0xffff, minor: if ingress { 0xfff2 } else { 0xfff3 } };
    let answers = match Handle::open()?.dump(Rtnl::GetTrafficFilter(message)) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINVAL | libc::ENODEV)) => Vec::new(),
        other => other.context(|| format!("list the filters of interface {ifindex}"))?,
    };
    Ok(answers.iter().any(|answer| match answer {
        Rtnl::NewTrafficFilter(found) => found.header.info >> 16 == u32::from(priority),
        _ => false,
    }))
}

/// Deletes an interface's clsact qdisc with all its filters. It is no error if there is none.
pub(crate) fn delete_clsact(ifindex: u32) -> Result<()> {
    let mut message = TcMessage::default();
    message.header.index = ifindex as i32;
    // TC_H_CLSACT (linux/pkt_sched.h).
    message.header.parent = TcHandle { major: 0xffff, minor: 0xfff1 };
    match Handle::open()?.act(Rtnl::DelQueueDiscipline(message), 0) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => Ok(()),
        other => other.context(|| format!("delete the clsact qdisc of interface {ifindex}")),
    }
}
