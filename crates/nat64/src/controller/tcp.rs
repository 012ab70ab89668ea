//! The states of a TCP session (RFC 6146 section 3.5.2). Segments are those that apps/nat64/controlled.p4 reports.

use crate::Timeouts;

/// A state, by its number in an entry of `sessions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No TCP session.
    None = 0,
    V6Init = 1,
    V4Init = 2,
    Established = 3,
    V4Fin = 4,
    V6Fin = 5,
    BothFin = 6,
    Transitory = 7,
}

/// The control bits of a segment.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

impl State {
    /// The state with a number; an unknown one is that of no TCP session.
    pub fn numbered(number: u128) -> State {
        use State::*;
        [None, V6Init, V4Init, Established, V4Fin, V6Fin, BothFin, Transitory]
            .into_iter()
            .find(|state| *state as u128 == number)
            .unwrap_or(None)
    }

    /// The state after a segment (section 3.5.2.2).
    pub fn after(self, from6: bool, flags: u8) -> State {
        let has = |bit: u8| flags & bit != 0;
        match self {
            State::V6Init if has(SYN) && !from6 => State::Established,
            State::V4Init if has(SYN) && from6 => State::Established,
            State::Established if has(FIN) && from6 => State::V6Fin,
            State::Established if has(FIN) => State::V4Fin,
            State::Established if has(RST) => State::Transitory,
            State::V4Fin if has(FIN) && from6 => State::BothFin,
            State::V6Fin if has(FIN) && !from6 => State::BothFin,
            State::Transitory if !has(RST) => State::Established,
            same => same,
        }
    }

    /// How long a TCP session in this state lives without packets, in seconds.
    pub fn lifetime(self, timeouts: &Timeouts) -> u32 {
        match self {
            State::Established | State::V4Fin | State::V6Fin => timeouts.tcp_established,
            _ => timeouts.tcp_transitory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State::*;
    use super::*;

    #[test]
    fn sessions_pass_the_states_of_the_rfc() {
        let (six, four) = (true, false);
        let opened = V6Init.after(six, SYN).after(four, SYN | 0x10);
        assert_eq!(opened, Established);
        assert_eq!(V4Init.after(four, SYN).after(six, SYN), Established);
        assert_eq!(opened.after(six, FIN).after(six, FIN).after(four, FIN), BothFin);
        assert_eq!(opened.after(four, FIN).after(six, FIN), BothFin);
        assert_eq!(opened.after(four, RST).after(six, RST), Transitory);
        assert_eq!(Transitory.after(six, 0x10), Established);
        assert_eq!((BothFin.after(six, SYN), None.after(six, SYN)), (BothFin, None));
    }

    #[test]
    fn numbers_are_those_of_the_program() {
        for state in [None, V6Init, V4Init, Established, V4Fin, V6Fin, BothFin, Transitory] {
            assert_eq!(State::numbered(state as u128), state);
        }
        assert_eq!(State::numbered(8), None);
    }
}
