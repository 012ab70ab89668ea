//! Members and groups of action profiles, and one-shots (P4Runtime specification, section 9.2).

use std::collections::HashSet;

use abi::id::ProfileId;
use dataplane::device::{Entity, Key, Update};
use proto::p4::config::v1::action_profile::SelectorSizeSemantics;
use proto::p4::v1::{self, action_profile_action_set as set};

use super::super::entry;
use super::super::kept::{Change, OneShot};
use super::super::pipeline::{Profile, Table};
use super::super::{Code, Status};
use super::{Batch, Kind, Made, put};

/// The most members that a group may have, each counted as often as it weighs.
const LARGEST: u64 = 1 << 16;

impl<'a> Batch<'a> {
    pub(super) fn member(&mut self, kind: Kind, given: &v1::ActionProfileMember) -> Made {
        let (profile, id) = (self.profile(given.action_profile_id)?, given.member_id);
        if id == 0 {
            return Err(Status::invalid("a member's id is not 0"));
        }
        if kind == Kind::Delete {
            self.check_unused(profile, id)?;
            self.change(Change::Members(profile.at, -1));
            return Ok(vec![Update::Delete(Key::Member(profile.at, id))]);
        }
        let action = given.action.as_ref().ok_or_else(|| Status::invalid("the member has no action"))?;
        let (_, table) = self.pipeline.table_of(profile.table)?;
        let action = entry::call(table, action, &mut self.kept.names)?;
        if kind == Kind::Insert {
            self.change(Change::Members(profile.at, 1));
        }
        Ok(vec![put(kind, Entity::Member { profile: profile.at, id, action })])
    }

    pub(super) fn group(&mut self, kind: Kind, given: &v1::ActionProfileGroup) -> Made {
        let (profile, id) = (self.profile(given.action_profile_id)?, given.group_id);
        if id == 0 {
            return Err(Status::invalid("a group's id is not 0"));
        }
        if !profile.info.with_selector {
            return Err(Status::invalid("an action profile without a selector has no groups"));
        }
        if kind == Kind::Delete {
            self.change(Change::Group(profile.at, id, None));
            return Ok(vec![Update::Delete(Key::Group(profile.at, id))]);
        }
        check_max_size(profile, given.max_size)?;
        if kind == Kind::Modify
            && self.kept.group(profile.at, id).is_some_and(|before| before.max_size != given.max_size)
        {
            return Err(Status::invalid("the largest size of a group cannot be changed"));
        }
        let mut seen = HashSet::new();
        for member in &given.members {
            if !seen.insert(member.member_id) {
                return Err(Status::invalid(format!("member {} is given twice", member.member_id)));
            }
        }
        let weights: Vec<i32> = given.members.iter().map(|member| member.weight).collect();
        check_weights(profile, &weights, given.max_size, Code::ResourceExhausted)?;
        let members = self.links.of_group(given)?;
        self.check_left_out(profile, given, &members)?;
        self.change(Change::Group(profile.at, id, Some(given.clone())));
        Ok(vec![put(kind, Entity::Group { profile: profile.at, id, members })])
    }

    /// Checks that the members exist that are left out of a group because their ports have no link. The device checks the others.
    fn check_left_out(
        &mut self,
        profile: &Profile,
        group: &v1::ActionProfileGroup,
        members: &[u32],
    ) -> Result<(), Status> {
        let taken: HashSet<u32> = members.iter().copied().collect();
        for id in group.members.iter().map(|member| member.member_id).filter(|id| !taken.contains(id)) {
            if self.get(&Key::Member(profile.at, id))?.is_none() {
                return Err(Status::not_found(format!("there is no member {id}")));
            }
        }
        Ok(())
    }

    /// Checks that no group has the member without the device's knowledge.
    fn check_unused(&self, profile: &Profile, id: u32) -> Result<(), Status> {
        // Each group is looked at only while groups may lack members.
        let mut groups = self.kept.groups().filter(|((at, _), _)| *at == profile.at && self.links.any_down());
        match groups.find(|(_, group)| group.members.iter().any(|member| member.member_id == id)) {
            None => Ok(()),
            Some(((_, group), _)) => {
                Err(Status::new(Code::FailedPrecondition, format!("member {id} belongs to group {group}")))
            }
        }
    }

    /// The profile, if it may be programmed with members and groups.
    fn profile(&self, id: u32) -> Result<&'a Profile, Status> {
        let profile = self.pipeline.profile_of(id)?;
        match self.kept.has_one_shots(profile.at) {
            false => Ok(profile),
            true => Err(mixed()),
        }
    }

    /// An entry that refers to a member or a group: no other entry of the profile may have a one-shot.
    pub(super) fn no_one_shots(&self, table: &Table) -> Result<(), Status> {
        self.profile(table.profile).map(drop)
    }

    /// A one-shot: the updates that make its members and its group.
    pub(super) fn one_shot(
        &mut self,
        table: &Table,
        given: &v1::ActionProfileActionSet,
    ) -> Result<(Vec<Update>, OneShot), Status> {
        let pipeline = self.pipeline;
        let profile = pipeline.profile_of(table.profile)?;
        if !profile.info.with_selector {
            return Err(Status::invalid("one-shots are for tables with an action selector"));
        }
        if self.kept.has_members(profile.at) {
            return Err(mixed());
        }
        check_modes(profile, given)?;
        let weights: Vec<i32> = given.action_profile_actions.iter().map(|action| action.weight).collect();
        check_weights(profile, &weights, profile.info.max_group_size, Code::InvalidArgument)?;
        let (mut made, mut members) = (Vec::new(), Vec::new());
        for action in &given.action_profile_actions {
            let call =
                action.action.as_ref().ok_or_else(|| Status::invalid("an action of the set is not set"))?;
            // Members have the numbers of the profile's first table.
            let (_, first) = pipeline.table_of(profile.table)?;
            let call = entry::call(first, call, &mut self.kept.names)?;
            let id = self.kept.next_id();
            members.push(id);
            made.push(Update::Insert(Entity::Member { profile: profile.at, id, action: call }));
        }
        let group = self.kept.next_id();
        let live = self.links.of_set(given, &members)?;
        made.push(Update::Insert(Entity::Group { profile: profile.at, id: group, members: live }));
        Ok((made, OneShot { profile: profile.at, set: given.clone(), group, members }))
    }

    /// Removes what a one-shot has made.
    pub(super) fn delete_one_shot(one_shot: &OneShot) -> Vec<Update> {
        let profile: ProfileId = one_shot.profile;
        let group = Update::Delete(Key::Group(profile, one_shot.group));
        let members = one_shot.members.iter().map(|id| Update::Delete(Key::Member(profile, *id)));
        std::iter::once(group).chain(members).collect()
    }
}

fn mixed() -> Status {
    Status::invalid("an action profile is programmed either with one-shots or with members and groups")
}

fn check_modes(profile: &Profile, given: &v1::ActionProfileActionSet) -> Result<(), Status> {
    if given.group_action.is_some() {
        return Err(Status::unimplemented("an action of the whole group"));
    }
    if given.action_selection_mode() == set::ActionSelectionMode::Random {
        return Err(Status::unimplemented("a random selection: members are selected by a hash"));
    }
    let wanted = given.size_semantics();
    let own = match profile.info.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(_)) => set::SizeSemantics::SumOfMembers,
        _ => set::SizeSemantics::SumOfWeights,
    };
    match wanted == own || wanted == set::SizeSemantics::DefaultSizeDeterminedByActionSelector {
        true => Ok(()),
        false => Err(Status::unimplemented("other semantics of the size than those of the selector")),
    }
}

/// Checks the weights of a group's members and their sum (section 9.2.2).
fn check_weights(profile: &Profile, weights: &[i32], largest: i32, too_large: Code) -> Result<(), Status> {
    let wrong = |weight: &&i32| match profile.info.weights_disallowed {
        true => **weight != 0,
        false => **weight <= 0,
    };
    if let Some(weight) = weights.iter().find(wrong) {
        return Err(Status::invalid(format!("a member cannot have the weight {weight}")));
    }
    let size = match &profile.info.selector_size_semantics {
        Some(SelectorSizeSemantics::SumOfMembers(limits)) => {
            if let Some(weight) =
                weights.iter().find(|w| limits.max_member_weight > 0 && **w > limits.max_member_weight)
            {
                let most = limits.max_member_weight;
                return Err(Status::invalid(format!("a member weighs {most} at most, not {weight}")));
            }
            weights.len() as i64
        }
        _ => weights.iter().map(|weight| i64::from((*weight).max(1))).sum(),
    };
    match largest > 0 && size > i64::from(largest) {
        false => Ok(()),
        true => Err(Status::new(
            too_large,
            format!("the group has the size {size}, and {largest} is the largest"),
        )),
    }
}

/// Checks the largest size of a group (section 9.2.2.1).
fn check_max_size(profile: &Profile, max_size: i32) -> Result<(), Status> {
    let most = profile.info.max_group_size;
    let right = match most {
        0 => max_size >= 0,
        most => (1..=most).contains(&max_size),
    };
    match right {
        true => Ok(()),
        false => Err(Status::invalid(format!(
            "`max_size` is {max_size}, and the program's largest group has {most}"
        ))),
    }
}

/// The members of a group, each as often as it weighs. What divides all weights is left out.
pub fn repeated(weighed: &[(u32, i32)]) -> Result<Vec<u32>, Status> {
    fn divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    let weights = weighed.iter().map(|(_, weight)| u64::from(weight.unsigned_abs()).max(1));
    let common = weights.clone().fold(0, divisor).max(1);
    let total: u64 = weights.map(|weight| weight / common).sum();
    if total > LARGEST {
        let text = format!("the weights of the group need {total} places; there are {LARGEST}");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let each = |(id, weight): &(u32, i32)| {
        let times = u64::from(weight.unsigned_abs()).max(1) / common;
        std::iter::repeat_n(*id, times as usize)
    };
    Ok(weighed.iter().flat_map(each).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_repeated_by_their_weights() {
        assert_eq!(repeated(&[(1, 2), (2, 4)]), Ok(vec![1, 2, 2]));
        assert_eq!(repeated(&[(1, 0), (2, 0)]), Ok(vec![1, 2]));
        assert!(repeated(&[(1, i32::MAX), (2, 1)]).is_err());
    }
}
