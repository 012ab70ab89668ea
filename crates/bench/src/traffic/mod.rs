//! Packets by the million from a description: headers, what their fields hold, sizes, flows.
//!
//! A [`Template`] is a packet's headers; [`Values`] say what a field holds from packet to packet; [`Sizes`] how long packets are.
//! [`Traffic`] makes packets of them, the same ones for the same seed. Lengths and checksums are right ([`finish`]) unless a field was
//! given another value.

pub mod datagram;
pub mod finish;
pub mod sizes;
pub mod template;
pub mod values;

pub use datagram::Datagram;
pub use sizes::Sizes;
pub use template::{Field, FieldError, Template};
pub use values::{Order, Values, ValuesError};

use crate::dice::Dice;

/// What traffic is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Packets are of each in turn.
    pub templates: Vec<Template>,
    /// Names of fields, and what they hold.
    pub fields: Vec<(String, Values)>,
    /// How long packets are.
    pub sizes: Sizes,
    /// How many flows: what fields hold whose order is [`Order::Flow`]. None: as many as there can be, up to a number.
    pub flows: Option<u64>,
    /// Which flow a packet is of.
    pub pick: Order,
    /// Other numbers, other packets.
    pub seed: u64,
}

/// Packets, one after the other.
#[derive(Clone, Debug)]
pub struct Traffic {
    plan: Plan,
    /// For each template the fields that it has: where, and the number of what they hold.
    places: Vec<Vec<(Field, usize)>>,
    flows: u64,
    dice: Dice,
    packets: u64,
    buffer: Vec<u8>,
}

impl Traffic {
    /// Checks a plan: names, widths, and that there are as many flows as it asks for. `most` flows are enough where it does not ask.
    pub fn new(plan: Plan, most: u64) -> Result<Traffic, String> {
        if plan.templates.is_empty() {
            return Err("there are no headers to make packets of".to_string());
        }
        let places = plan.templates.iter().map(|t| places(t, &plan.fields)).collect::<Result<Vec<_>, _>>()?;
        for (number, (name, _)) in plan.fields.iter().enumerate() {
            let nowhere = !places.iter().flatten().any(|(_, n)| *n == number);
            if let Some(why) = plan.templates[0].field(name).err().filter(|_| nowhere) {
                return Err(why.to_string());
            }
        }
        let possible = plan.possible();
        let flows =
            plan.flows.unwrap_or_else(|| most.min(u64::try_from(possible).unwrap_or(u64::MAX)).max(1));
        if u128::from(flows) > possible {
            return Err(format!(
                "{flows} flows are wanted, and what fields hold by flow makes {possible}; give a field more values"
            ));
        }
        let dice = Dice::new(plan.seed);
        Ok(Traffic { plan, places, flows, dice, packets: 0, buffer: Vec::new() })
    }

    /// How many flows there are.
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// The next packet, without frame check sequence.
    pub fn next_packet(&mut self) -> &[u8] {
        let flow = match self.plan.pick {
            Order::Flow | Order::Sequential => self.packets % self.flows,
            Order::Uniform => self.dice.below(self.flows),
            Order::Zipf(exponent) => values::zipf(self.flows as f64, exponent, &mut self.dice) as u64,
        };
        let size = self.plan.sizes.of(self.packets, &mut self.dice);
        let drawn = self.draw(flow, self.packets);
        self.fill(flow, size, &drawn);
        self.packets += 1;
        &self.buffer
    }

    /// A packet of a flow; what does not depend on the flow is as in the packet of that number.
    pub fn of_flow(&mut self, flow: u64) -> &[u8] {
        // Looking at flows changes no packet to come.
        let dice = self.dice.clone();
        let size = self.plan.sizes.of(flow, &mut self.dice);
        let drawn = self.draw(flow, flow);
        self.dice = dice;
        self.fill(flow, size, &drawn);
        &self.buffer
    }

    /// What each field holds.
    fn draw(&mut self, flow: u64, packet: u64) -> Vec<u128> {
        // Flows are numbered with one digit for each field that they decide, and the first for the template.
        let mut rest = u128::from(flow) / self.plan.templates.len() as u128;
        let (fields, dice) = (&self.plan.fields, &mut self.dice);
        let value = |(_, values): &(String, Values)| match values.order {
            Order::Flow => {
                let count = values.count();
                let digit = rest % count;
                rest /= count;
                values.nth(digit)
            }
            _ => values.draw(packet, dice),
        };
        fields.iter().map(value).collect()
    }

    fn fill(&mut self, flow: u64, size: usize, drawn: &[u128]) {
        let number = (flow % self.plan.templates.len() as u64) as usize;
        let (template, places) = (&self.plan.templates[number], &self.places[number]);
        let packet = &mut self.buffer;
        packet.clear();
        packet.extend_from_slice(&template.bytes);
        packet.extend((template.bytes.len()..size).map(|n| n as u8));
        let put = |packet: &mut [u8]| {
            for (field, number) in places {
                template::write(packet, field.at, field.width, drawn[*number]);
            }
            template.insist(packet);
        };
        put(packet);
        finish::ethernet(packet);
        // What was asked for stands, right or wrong.
        put(packet);
    }
}

impl Plan {
    /// How many flows there can be.
    fn possible(&self) -> u128 {
        let by_flow = self.fields.iter().filter(|(_, values)| values.order == Order::Flow);
        let counts = by_flow.map(|(_, values)| values.count());
        counts.fold(self.templates.len() as u128, u128::saturating_mul)
    }
}

/// Where a template has fields that were given values; those that it does not have are another's.
fn places(template: &Template, fields: &[(String, Values)]) -> Result<Vec<(Field, usize)>, String> {
    let mut all = Vec::new();
    for (number, (name, values)) in fields.iter().enumerate() {
        let field = match template.field(name) {
            Ok(field) => field,
            Err(FieldError::Unknown { .. }) => continue,
            Err(why) => return Err(why.to_string()),
        };
        values.fit(field.width).map_err(|e| format!("{}: {e}", field.name))?;
        let (mask, demanded) = template.demanded(field);
        let differs = |n| (values.nth(n) ^ demanded) & mask != 0;
        if mask != 0 && (0..values.count().min(1024)).any(differs) {
            let what = format!("{:#x} under the mask {mask:#x}", demanded);
            return Err(format!("{} must be {what} for {}", field.name, template.name));
        }
        all.push((field.clone(), number));
    }
    Ok(all)
}
