//! Which controller is the primary of a role (P4Runtime specification, section 5).
//!
//! A role exists from its first stream to its last one, and its configuration with it. Of the default role the highest election id is remembered.
//!
//! One value is for one device. It knows streams by numbers, and says which of them are to be told what: it has no streams and no clock.

use std::collections::BTreeMap;

use proto::google::rpc;
use proto::p4::v1::{self, Role, Uint128};

use super::role::Scope;
use super::{Code, Status};

/// The number of a stream.
pub type StreamId = u64;

/// The controllers that a role may have at a time.
const STREAMS: usize = 64;
/// The roles that a device may have.
const ROLES: usize = 256;
/// The longest name of a role in bytes.
const NAME: usize = 256;
/// The longest configuration of a role in bytes.
const CONFIG: usize = 64 << 10;
/// The bytes of the configurations of all roles.
const CONFIGS: usize = 4 << 20;

/// The controllers of a device.
#[derive(Debug, Default)]
pub struct Arbitration {
    device: u64,
    roles: BTreeMap<String, Contest>,
}

/// The controllers of one role.
#[derive(Debug, Default)]
struct Contest {
    /// The configuration that the last primary has given.
    config: Option<prost_types::Any>,
    scope: Scope,
    /// The largest election id that a primary had.
    highest: Option<u128>,
    primary: Option<StreamId>,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: StreamId,
    election: Option<u128>,
    /// The deprecated number with which the controller named the role.
    role: Option<Role>,
}

/// Messages for streams.
pub type Notices = Vec<(StreamId, v1::MasterArbitrationUpdate)>;

/// An election id as a number.
pub fn election(id: Option<&Uint128>) -> Option<u128> {
    id.map(|id| u128::from(id.high) << 64 | u128::from(id.low))
}

/// The name of a role. A controller of an older version gives a number.
#[allow(deprecated)]
pub fn role_name(role: Option<&Role>) -> String {
    match role {
        Some(role) if !role.name.is_empty() => role.name.clone(),
        Some(role) if role.id != 0 => role.id.to_string(),
        _ => String::new(),
    }
}

/// The name of the role of a request.
pub fn role_of(name: &str, id: u64) -> String {
    match (name, id) {
        ("", 0) => String::new(),
        ("", id) => id.to_string(),
        (name, _) => name.to_string(),
    }
}

impl Arbitration {
    /// A device without controllers.
    pub fn of(device: u64) -> Arbitration {
        Arbitration { device, roles: BTreeMap::new() }
    }

    /// A stream's message (section 5.4). An error ends the stream.
    pub fn update(
        &mut self,
        stream: StreamId,
        update: &v1::MasterArbitrationUpdate,
    ) -> Result<Notices, Status> {
        let name = role_name(update.role.as_ref());
        let config = update.role.as_ref().and_then(|role| role.config.as_ref());
        self.check_size(&name, config)?;
        let config = config.cloned();
        let scope = Scope::of(config.as_ref())?;
        if let Some(other) = self.role_of_stream(stream).filter(|other| **other != name) {
            let text =
                format!("the stream has the role `{other}`: a controller opens a new stream for another");
            return Err(Status::new(Code::FailedPrecondition, text));
        }
        let election = election(update.election_id.as_ref());
        if !self.roles.contains_key(&name) && self.roles.len() >= ROLES {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!("the device has {ROLES} roles already"),
            ));
        }
        let device = self.device;
        let contest = self.roles.entry(name).or_default();
        let others = || contest.clients.iter().filter(|client| client.stream != stream);
        if election.is_some() && others().any(|client| client.election == election) {
            return Err(Status::invalid("the election id is that of another controller"));
        }
        let known = contest.clients.len();
        // The configuration that all are told is that of the primary.
        let role = update.role.as_ref().map(|role| Role { config: None, ..role.clone() });
        match contest.clients.iter_mut().find(|client| client.stream == stream) {
            Some(client) => (client.election, client.role) = (election, role),
            None if known >= STREAMS => {
                let text = format!("the role has {STREAMS} controllers already");
                return Err(Status::new(Code::ResourceExhausted, text));
            }
            None => contest.clients.push(Client { stream, election, role }),
        }
        Ok(contest.decide(device, stream, election, config, scope))
    }

    /// A stream has ended. The other controllers of its role are told if it was that of the primary.
    pub fn leave(&mut self, stream: StreamId) -> Notices {
        let device = self.device;
        let Some(contest) = self.roles.values_mut().find(|contest| contest.has(stream)) else {
            return Notices::new();
        };
        contest.clients.retain(|client| client.stream != stream);
        let notices = match contest.primary == Some(stream) {
            true => {
                contest.primary = None;
                contest.tell_all(device)
            }
            false => Notices::new(),
        };
        self.forget_roles();
        notices
    }

    /// Forgets roles without controllers.
    fn forget_roles(&mut self) {
        if let Some(default) = self.roles.get_mut("").filter(|default| default.clients.is_empty()) {
            (default.config, default.scope) = (None, Scope::default());
        }
        self.roles.retain(|name, contest| name.is_empty() || !contest.clients.is_empty());
    }

    /// Whether there is room for a role and its configuration.
    fn check_size(&self, name: &str, config: Option<&prost_types::Any>) -> Result<(), Status> {
        let size = |config: &prost_types::Any| config.type_url.len() + config.value.len();
        let new = config.map_or(0, size);
        if name.len() > NAME {
            return Err(Status::invalid(format!("the name of the role is longer than {NAME} bytes")));
        }
        if new > CONFIG {
            return Err(Status::new(
                Code::ResourceExhausted,
                format!("the role's configuration has {new} bytes: {CONFIG} are allowed"),
            ));
        }
        let others = self.roles.iter().filter(|(other, _)| *other != name);
        let held: usize = others.filter_map(|(_, contest)| contest.config.as_ref()).map(size).sum();
        match held + new > CONFIGS {
            false => Ok(()),
            true => {
                let text = "the configurations of all roles need too much memory";
                Err(Status::new(Code::ResourceExhausted, text))
            }
        }
    }

    /// Whether a request is one of the primary of its role. Returns what the role may do.
    pub fn check_primary(&self, role: &str, election: Option<u128>) -> Result<&Scope, Status> {
        let Some(contest) = self.roles.get(role) else {
            return Err(match role {
                "" => Status::new(Code::PermissionDenied, "there is no primary controller"),
                role => Status::not_found(format!("the device has no role `{role}`")),
            });
        };
        let primary = contest.clients.iter().find(|client| Some(client.stream) == contest.primary);
        match primary {
            Some(primary) if election.is_some() && primary.election == election => Ok(&contest.scope),
            Some(_) => Err(Status::new(Code::PermissionDenied, "the controller is not the primary")),
            None => Err(Status::new(Code::PermissionDenied, "there is no primary controller")),
        }
    }

    /// What a role may read: a role that nobody has asked for does not exist.
    pub fn scope(&self, role: &str) -> Result<Scope, Status> {
        match self.roles.get(role) {
            Some(contest) => Ok(contest.scope.clone()),
            None if role.is_empty() => Ok(Scope::default()),
            None => Err(Status::not_found(format!("the device has no role `{role}`"))),
        }
    }

    /// The primaries of all roles, with what each may do.
    pub fn primaries(&self) -> impl Iterator<Item = (StreamId, &Scope)> {
        self.roles.values().filter_map(|contest| Some((contest.primary?, &contest.scope)))
    }

    /// Whether a stream is that of a primary.
    pub fn is_primary(&self, stream: StreamId) -> bool {
        self.primaries().any(|(primary, _)| primary == stream)
    }

    fn role_of_stream(&self, stream: StreamId) -> Option<&String> {
        self.roles.iter().find(|(_, contest)| contest.has(stream)).map(|(name, _)| name)
    }
}

impl Contest {
    fn has(&self, stream: StreamId) -> bool {
        self.clients.iter().any(|client| client.stream == stream)
    }

    /// Decides who is the primary after a controller's message, and who is told.
    fn decide(
        &mut self,
        device: u64,
        stream: StreamId,
        election: Option<u128>,
        config: Option<prost_types::Any>,
        scope: Scope,
    ) -> Notices {
        let was_primary = self.primary == Some(stream);
        if election.is_some() && election >= self.highest {
            (self.highest, self.primary) = (election, Some(stream));
            (self.config, self.scope) = (config, scope);
            return self.tell_all(device);
        }
        if was_primary {
            self.primary = None;
            return self.tell_all(device);
        }
        self.clients
            .iter()
            .filter(|c| c.stream == stream)
            .map(|c| (c.stream, self.notice(device, c)))
            .collect()
    }

    /// A message for every controller: for the backups first.
    fn tell_all(&self, device: u64) -> Notices {
        let notice = |client: &Client| (client.stream, self.notice(device, client));
        let is_primary = |client: &&Client| Some(client.stream) == self.primary;
        let backups = self.clients.iter().filter(|client| !is_primary(client));
        backups.chain(self.clients.iter().filter(is_primary)).map(notice).collect()
    }

    #[allow(deprecated)]
    fn notice(&self, device: u64, client: &Client) -> v1::MasterArbitrationUpdate {
        let (code, message) = match self.primary {
            Some(primary) if primary == client.stream => (Code::Ok, "you are the primary"),
            Some(_) => (Code::AlreadyExists, "another controller is the primary"),
            None => (Code::NotFound, "there is no primary controller"),
        };
        let role = client.role.as_ref().map(|role| Role { config: self.config.clone(), ..role.clone() });
        v1::MasterArbitrationUpdate {
            device_id: device,
            role,
            election_id: self.highest.map(|id| Uint128 { high: (id >> 64) as u64, low: id as u64 }),
            status: Some(rpc::Status {
                code: code as i32,
                message: message.to_string(),
                details: Vec::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role;

    fn update(role: &str, config: usize, election: Option<u64>) -> v1::MasterArbitrationUpdate {
        let any = prost_types::Any { type_url: role::CONFIG.to_string(), value: [32, 1].repeat(config / 2) };
        let config = (config > 0).then_some(any);
        v1::MasterArbitrationUpdate {
            device_id: 1,
            role: Some(Role { name: role.to_string(), config, ..Role::default() }),
            election_id: election.map(|low| Uint128 { high: 0, low }),
            status: None,
        }
    }

    #[test]
    fn a_role_and_its_configuration_end_with_its_last_stream() {
        let mut arbitration = Arbitration::of(1);
        for round in 0..3u64 {
            for role in 0..ROLES as u64 {
                let message = update(&format!("{round}-{role}"), 100, Some(1));
                assert!(arbitration.update(role, &message).is_ok(), "role {role} in round {round}");
            }
            let refused = arbitration.update(9999, &update("one more", 0, Some(1)));
            assert_eq!(refused.expect_err("the roles are used").code, Code::ResourceExhausted);
            (0..ROLES as u64).for_each(|stream| drop(arbitration.leave(stream)));
            assert!(arbitration.roles.is_empty());
        }
        // The highest election id of the default role is remembered, its configuration is not.
        assert!(arbitration.update(1, &update("", 100, Some(7))).is_ok());
        arbitration.leave(1);
        assert!(arbitration.roles[""].config.is_none());
        let notices = arbitration.update(2, &update("", 0, Some(6))).expect("it is known");
        assert_eq!(notices[0].1.status.as_ref().map(|status| status.code), Some(Code::NotFound as i32));
    }

    #[test]
    fn configurations_of_roles_are_counted() {
        let mut arbitration = Arbitration::of(1);
        let refused = arbitration.update(1, &update("large", CONFIG + 2, Some(1)));
        assert_eq!(refused.expect_err("it is too large").code, Code::ResourceExhausted);
        let refused = arbitration.update(1, &update(&"n".repeat(NAME + 1), 0, Some(1)));
        assert_eq!(refused.expect_err("it is too long").code, Code::InvalidArgument);
        let size = CONFIG - 100;
        let taken = (0..ROLES as u64)
            .take_while(|n| arbitration.update(*n, &update(&n.to_string(), size, Some(1))).is_ok());
        assert!((60..=70).contains(&taken.count()));
    }
}
