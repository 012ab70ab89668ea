//! Compares Strait's P4Info with p4c's. The order of their parts does not matter.

use proto::p4::config::v1::{P4Info, Preamble};

/// The first difference between two messages, if there is one.
pub fn difference(ours: &P4Info, theirs: &str) -> Option<String> {
    let theirs = match proto::parse::<P4Info>(theirs) {
        Ok(info) => info,
        Err(why) => return Some(format!("p4c's message cannot be read: {why}")),
    };
    let (ours, theirs) = (sorted(ours.clone()), sorted(theirs));
    if ours == theirs {
        return None;
    }
    let (a, b) = (proto::text(&ours), proto::text(&theirs));
    let mut context = String::new();
    let lines = a.lines().map(Some).chain(std::iter::repeat(None)).zip(b.lines().map(Some).chain([None]));
    for (x, y) in lines {
        if x != y {
            let show = |l: Option<&str>| l.unwrap_or("the end").trim().to_string();
            return Some(format!("in {context}: Strait `{}`, p4c `{}`", show(x), show(y)));
        }
        if let Some(name) = x.filter(|l| l.trim_start().starts_with("name:")) {
            context = name.trim().to_string();
        }
    }
    Some("they differ".into())
}

/// Sorts the parts, because their order has no meaning.
fn sorted(mut info: P4Info) -> P4Info {
    fn by_name<T>(list: &mut [T], head: impl Fn(&T) -> &Option<Preamble>) {
        list.sort_by_key(|x| head(x).as_ref().map(|p| (p.name.clone(), p.id)));
    }
    info.type_info.get_or_insert_default();
    for table in &mut info.tables {
        table.action_refs.sort_by_key(|a| a.id);
        table.direct_resource_ids.sort_unstable();
    }
    for profile in &mut info.action_profiles {
        profile.table_ids.sort_unstable();
    }
    by_name(&mut info.tables, |x| &x.preamble);
    by_name(&mut info.actions, |x| &x.preamble);
    by_name(&mut info.action_profiles, |x| &x.preamble);
    by_name(&mut info.counters, |x| &x.preamble);
    by_name(&mut info.direct_counters, |x| &x.preamble);
    by_name(&mut info.meters, |x| &x.preamble);
    by_name(&mut info.direct_meters, |x| &x.preamble);
    by_name(&mut info.controller_packet_metadata, |x| &x.preamble);
    by_name(&mut info.value_sets, |x| &x.preamble);
    by_name(&mut info.registers, |x| &x.preamble);
    by_name(&mut info.digests, |x| &x.preamble);
    info
}
