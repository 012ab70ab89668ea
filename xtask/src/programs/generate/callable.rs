//! Generates functions, actions and controls that other code calls.

use super::Generator;
use super::types::Ty;

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
    InOut,
}

impl Direction {
    pub fn word(self) -> &'static str {
        match self {
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        }
    }
}

/// Parameters with their direction, name and type.
pub type Params = Vec<(Direction, String, Ty)>;

/// A function, or an action that is called with all its arguments.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub params: Params,
    pub returns: Option<Ty>,
}

/// An action of a table.
#[derive(Clone, Debug)]
pub struct Action {
    pub name: String,
    /// The parameters whose arguments the table's list gives.
    pub bound: Params,
    /// The parameters whose arguments the entries give.
    pub data: Vec<(String, Ty)>,
}

/// A control or parser that others instantiate.
#[derive(Clone, Debug)]
pub struct Block {
    pub name: String,
    pub params: Params,
}

/// The kind of body that contains statements. It decides which statements are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    Function,
    Action,
    Control,
    Parser,
}

impl Generator {
    fn params(&mut self, most: usize) -> Params {
        let count = 1 + self.below(most);
        let mut params = Vec::new();
        for _ in 0..count {
            let direction = match self.below(4) {
                0 => Direction::Out,
                1 | 2 => Direction::InOut,
                _ => Direction::In,
            };
            // Using one type several times makes arguments that overlap.
            let same = params.last().map(|(_, _, ty): &(_, _, Ty)| ty.clone()).filter(|_| self.chance(50));
            let ty = match same {
                Some(ty) => ty,
                None => self.any_type(),
            };
            params.push((direction, self.fresh("p"), ty));
        }
        params
    }

    fn spell_params(&self, params: &Params) -> String {
        let one = |(direction, name, ty): &(Direction, String, Ty)| {
            format!("{} {} {name}", direction.word(), self.spell(ty))
        };
        params.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn see_params(&mut self, params: &Params) {
        for (direction, name, ty) in params {
            self.see(name, ty, *direction != Direction::In);
        }
    }

    /// Declares functions. Each one may call those before it.
    pub fn declare_functions(&mut self) {
        for _ in 0..self.below(4) {
            let name = self.fresh("f");
            let params = self.params(4);
            let returns = if self.chance(80) { Some(self.scalar()) } else { None };
            let word = returns.as_ref().map_or("void".to_string(), |t| self.spell(t));
            self.open(&format!("{word} {name}({}) {{", self.spell_params(&params)));
            self.apart(|g| {
                g.see_params(&params);
                g.returns = returns.clone();
                let count = 1 + g.below(3);
                g.statements(Body::Function, count, 2);
                if let Some(ty) = &returns {
                    let value = g.expr(ty, 2);
                    g.line(&format!("return {value};"));
                }
                g.returns = None;
            });
            self.close("}");
            self.functions.push(Function { name, params, returns });
        }
    }

    /// Declares actions that are called like functions, and actions of tables. They can use everything that their control can use.
    pub fn declare_actions(&mut self) {
        self.actions.clear();
        self.callable_actions.clear();
        for _ in 0..self.below(3) {
            let (name, params) = (self.fresh("act"), self.params(3));
            self.action_body(&name, &self.spell_params(&params), &params, &[]);
            self.callable_actions.push(Function { name, params, returns: None });
        }
        for _ in 0..2 + self.below(3) {
            let name = self.fresh("set");
            let bound: Params = if self.chance(20) { self.params(2) } else { Vec::new() };
            let mut data = Vec::new();
            for _ in 0..self.below(4) {
                let ty = self.scalar();
                let ty = if ty.width() > 128 { Ty::Bit(16) } else { ty };
                data.push((self.fresh("d"), ty));
            }
            let spelled = data.iter().map(|(name, ty)| format!("{} {name}", self.spell(ty)));
            let mut all: Vec<String> = vec![self.spell_params(&bound)];
            all.extend(spelled);
            let all = all.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ");
            self.action_body(&name, &all, &bound, &data);
            self.actions.push(Action { name, bound, data });
        }
    }

    fn action_body(&mut self, name: &str, spelled: &str, params: &Params, data: &[(String, Ty)]) {
        self.open(&format!("action {name}({spelled}) {{"));
        self.inside(|g| {
            g.see_params(params);
            for (name, ty) in data {
                g.see(name, ty, false);
            }
            let count = 1 + g.below(3);
            g.statements(Body::Action, count, 1);
            // The values from entries must have a visible effect.
            for (name, ty) in data {
                if let Some(target) = g.place(|p| p.writable && p.ty.is_number()) {
                    let value = g.converted(name, ty, &target.ty);
                    g.line(&format!("{} = {} ^ ({value});", target.text, target.text));
                }
            }
        });
        self.close("}");
    }

    /// Declares controls. Each one may be instantiated by those after it.
    pub fn declare_controls(&mut self) {
        for _ in 0..self.below(3) {
            let name = self.fresh("C");
            let params = self.params(4);
            let outer = std::mem::take(&mut self.instances);
            self.open(&format!("control {name}({}) {{", self.spell_params(&params)));
            self.apart(|g| {
                g.see_params(&params);
                g.control_body(false);
            });
            self.close("}");
            self.instances = outer;
            self.controls.push(Block { name, params });
        }
    }

    /// Generates the declarations of a control and its `apply` block.
    pub fn control_body(&mut self, is_main: bool) {
        let is_ingress = self.scope.places.iter().any(|p| p.text == "sm.egress_spec");
        self.tables.clear();
        self.instances.clear();
        self.state.clear();
        for control in self.controls.clone() {
            if self.chance(60) {
                let name = self.fresh("c");
                self.line(&format!("{}() {name};", control.name));
                self.instances.push((name, control.params.clone()));
                // Each instance of a control has tables of its own.
                if self.chance(25) {
                    let name = self.fresh("c");
                    self.line(&format!("{}() {name};", control.name));
                    self.instances.push((name, control.params));
                }
            }
        }
        self.declare_locals(3);
        self.declare_state(is_main);
        self.declare_actions();
        let most = if is_main { 1 + self.size as usize } else { 1 };
        let tables = if is_main { 1 + self.below(most) } else { self.below(2) };
        for _ in 0..tables {
            self.declare_table();
        }
        self.open("apply {");
        self.inside(|g| {
            if is_ingress {
                g.calls_in_expr = 1;
                let port = g.expr(&Ty::Bit(2), 2);
                g.line(&format!("sm.egress_spec = (bit<9>)({port});"));
            }
            let count = 2 + g.below(2 + 2 * g.size as usize);
            g.statements(Body::Control, count, 3);
            g.apply_rest();
            if is_main {
                g.epilogue(is_ingress);
            }
        });
        self.close("}");
    }

    /// Declares the variables of a control. A few of them have no initial value.
    pub fn declare_locals(&mut self, most: usize) {
        for _ in 0..self.below(most + 1) {
            self.local();
        }
    }

    /// Declares a variable.
    pub fn local(&mut self) {
        let (ty, name) = (self.any_type(), self.fresh("l"));
        let is_plain = ty.is_scalar() || matches!(ty, Ty::Struct(_));
        if is_plain && self.chance(75) {
            let value = self.expr(&ty, 1);
            self.line(&format!("{} {name} = {value};", self.spell(&ty)));
        } else {
            self.line(&format!("{} {name};", self.spell(&ty)));
        }
        self.see(&name, &ty, true);
    }
}
