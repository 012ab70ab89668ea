//! Generates packets from a description: headers, values of fields, sizes, flows.
//!
//! A [`Template`] has a packet's headers, [`Values`] give each packet's value of a field, and [`Sizes`] give its size. [`Traffic`]
//! generates the packets; the same seed gives the same packets. [`finish`] sets lengths and checksums, except those fields that the
//! description sets.

pub mod datagram;
pub mod finish;
pub mod sizes;
pub mod template;
pub mod values;

pub use datagram::Datagram;
pub use sizes::Sizes;
pub use template::{Field, FieldError, Template};
pub use values::{Order, Values, ValuesError};

use harness::rng::Rng;

/// The description of traffic.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The templates, which packets use in turn.
    pub templates: Vec<Template>,
    /// The names of fields, and their values.
    pub fields: Vec<(String, Values)>,
    /// The sizes of packets.
    pub sizes: Sizes,
    /// The number of flows. Fields with [`Order::Flow`] take their values by flow. `None`: as many as the fields allow, up to a limit.
    pub flows: Option<u64>,
    /// The order in which packets select flows.
    pub pick: Order,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// A generator of packets.
#[derive(Clone, Debug)]
pub struct Traffic {
    plan: Plan,
    /// For each template: the fields that have values, and the index of those values in the plan.
    places: Vec<Vec<(Field, usize)>>,
    flows: u64,
    rng: Rng,
    packets: u64,
    buffer: Vec<u8>,
}

impl Traffic {
    /// Checks the names, the widths and the number of flows of a plan. `most` limits the number of flows if the plan has none.
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
        let rng = Rng::new(plan.seed);
        Ok(Traffic { plan, places, flows, rng, packets: 0, buffer: Vec::new() })
    }

    /// The number of flows.
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// Generates the next packet, without a frame check sequence.
    pub fn next_packet(&mut self) -> &[u8] {
        let flow = match self.plan.pick {
            Order::Flow | Order::Sequential => self.packets % self.flows,
            Order::Uniform => self.rng.below(self.flows),
            Order::Zipf(exponent) => values::zipf(self.flows as f64, exponent, &mut self.rng) as u64,
        };
        let size = self.plan.sizes.of(self.packets, &mut self.rng);
        let drawn = self.draw(flow, self.packets);
        self.fill(flow, size, &drawn);
        self.packets += 1;
        &self.buffer
    }

    /// Generates a packet of a flow. Values that do not depend on the flow are those of the packet with the flow's number.
    pub fn of_flow(&mut self, flow: u64) -> &[u8] {
        // The random state is restored afterwards, so that later packets do not change.
        let rng = self.rng.clone();
        let size = self.plan.sizes.of(flow, &mut self.rng);
        let drawn = self.draw(flow, flow);
        self.rng = rng;
        self.fill(flow, size, &drawn);
        &self.buffer
    }

    /// The value of each field.
    fn draw(&mut self, flow: u64, packet: u64) -> Vec<u128> {
        // The number of a flow has one digit for each field with [`Order::Flow`]; the lowest digit selects the template.
        let mut rest = u128::from(flow) / self.plan.templates.len() as u128;
        let (fields, rng) = (&self.plan.fields, &mut self.rng);
        let value = |(_, values): &(String, Values)| match values.order {
            Order::Flow => {
                let count = values.count();
                let digit = rest % count;
                rest /= count;
                values.nth(digit)
            }
            _ => values.draw(packet, rng),
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
            template.write_fixed(packet);
        };
        put(packet);
        finish::ethernet(packet);
        // The values of the description have precedence, even where they are wrong.
        put(packet);
    }
}

impl Plan {
    /// The number of flows that the fields allow.
    fn possible(&self) -> u128 {
        let by_flow = self.fields.iter().filter(|(_, values)| values.order == Order::Flow);
        let counts = by_flow.map(|(_, values)| values.count());
        counts.fold(self.templates.len() as u128, u128::saturating_mul)
    }
}

/// The fields of a template that have values, and the index of those values. Fields that the template does not have are skipped, because
/// another template has them.
fn places(template: &Template, fields: &[(String, Values)]) -> Result<Vec<(Field, usize)>, String> {
    let mut all = Vec::new();
    for (number, (name, values)) in fields.iter().enumerate() {
        let field = match template.field(name) {
            Ok(field) => field,
            Err(FieldError::Unknown { .. }) => continue,
            Err(why) => return Err(why.to_string()),
        };
        values.fit(field.width).map_err(|e| format!("{}: {e}", field.name))?;
        let (mask, fixed) = template.fixed_bits(field);
        let differs = |n| (values.nth(n) ^ fixed) & mask != 0;
        if mask != 0 && (0..values.count().min(1024)).any(differs) {
            let what = format!("{:#x} under the mask {mask:#x}", fixed);
            return Err(format!("{} must be {what} for {}", field.name, template.name));
        }
        all.push((field.clone(), number));
    }
    Ok(all)
}
