//! A plan as text for people: one line for each step, and one for each op.

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::step::Step;

impl Plan {
    /// The whole plan. Equal plans give equal texts; contents appear as digests.
    pub fn render(&self) -> String {
        let bundle = self.bundle.map_or_else(|| "none".to_owned(), |digest| digest.short());
        let mut text = format!("{} {} (bundle {bundle})\n", self.pipeline, self.cluster_name);
        for host in &self.hosts {
            let _ = writeln!(text, "host {}: {}", host.name, host.roles.join(", "));
        }
        for (name, provider) in &self.slots {
            let secret = if provider.secret() { " (secret)" } else { "" };
            let _ = writeln!(text, "slot {}{secret}", name.0);
        }
        for step in &self.steps {
            text.push('\n');
            text.push_str(&step.render());
        }
        text
    }
}

impl Step {
    /// The step with its ops, its dependencies and its undo.
    pub fn render(&self) -> String {
        let mut text = format!("{}: {}\n", self.id, self.title);
        if !self.after.is_empty() {
            let after: Vec<_> = self.after.iter().map(|id| id.0.as_str()).collect();
            let _ = writeln!(text, "  after {}", after.join(", "));
        }
        if !self.after_end.is_empty() {
            let finished: Vec<_> = self.after_end.iter().map(|id| id.0.as_str()).collect();
            let _ = writeln!(text, "  after the end of {}", finished.join(", "));
        }
        for op in &self.ops {
            let _ = writeln!(text, "  {op}");
        }
        if let Some(timed) = &self.probe {
            let _ = writeln!(text, "  until {} (within {} s)", timed.probe, timed.within_s);
        }
        let retries = if self.retries == 0 { String::new() } else { format!(", {} retries", self.retries) };
        let _ = writeln!(text, "  timeout {} s{retries}; undo: {}", self.timeout_s, self.undo);
        text
    }
}
