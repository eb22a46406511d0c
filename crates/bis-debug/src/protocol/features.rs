//! The features of `qSupported`: what the client can do, as a list of names.

use super::text::lossy;

/// What a client says of one feature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Feature {
    /// `name+`, or the name alone.
    Yes,
    /// `name-`.
    No,
    /// `name?`: ask.
    Maybe,
    /// `name=value`.
    Value(String),
}

/// Which program the client is, as far as its features tell. Clients differ in what they make of the same
/// packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Client {
    Gdb,
    /// LLDB, and CodeLLDB, which uses it.
    Lldb,
    /// It probes for LLDB's packets too, `QThreadSuffixSupported` even before `qSupported`. If that is
    /// answered, it cannot run backwards: answer LLDB's packets only to LLDB.
    Delve,
    Other,
}

/// What a client can do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Features(Vec<(String, Feature)>);

impl Features {
    pub(super) fn parse(text: &[u8]) -> Features {
        let one = |item: &[u8]| {
            let item = lossy(item);
            if let Some((name, value)) = item.split_once('=') {
                return (name.to_owned(), Feature::Value(value.to_owned()));
            }
            let known = [('+', Feature::Yes), ('-', Feature::No), ('?', Feature::Maybe)];
            let said = known
                .into_iter()
                .find_map(|(mark, feature)| Some((item.strip_suffix(mark)?.to_owned(), feature)));
            said.unwrap_or((item, Feature::Yes))
        };
        Features(text.split(|byte| *byte == b';').filter(|item| !item.is_empty()).map(one).collect())
    }

    /// What the client says of this feature, if anything.
    pub fn get(&self, name: &str) -> Option<&Feature> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, feature)| feature)
    }

    /// Does the client have this feature?
    pub fn has(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Feature::Yes | Feature::Value(_)))
    }

    /// Every name with what is said of it, in the client's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Feature)> {
        self.0.iter().map(|(name, feature)| (name.as_str(), feature))
    }

    /// Which program the client seems to be.
    pub fn client(&self) -> Client {
        let architectures = match self.get("xmlRegisters") {
            Some(Feature::Value(names)) => names.as_str(),
            _ => "",
        };
        if self.has("vContSupported") || self.has("qRelocInsn") {
            Client::Gdb
        } else if architectures.split(',').any(|name| name == "arm") {
            Client::Lldb
        } else if self.has("no-resumed") && architectures == "i386" {
            Client::Delve
        } else {
            Client::Other
        }
    }

    /// Thread ids name their process.
    pub fn multiprocess(&self) -> bool {
        self.has("multiprocess")
    }

    /// Errors may be sentences, everywhere (gdb 16).
    pub fn error_message(&self) -> bool {
        self.has("error-message")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_values() {
        let features =
            Features::parse(b"multiprocess+;swbreak-;hwbreak?;xmlRegisters=i386,arm;vContSupported+;;odd");
        assert!(features.multiprocess() && !features.has("swbreak") && !features.has("hwbreak"));
        assert_eq!(features.get("hwbreak"), Some(&Feature::Maybe));
        assert_eq!(features.get("xmlRegisters"), Some(&Feature::Value("i386,arm".to_owned())));
        assert!(features.has("odd") && !features.error_message());
        assert_eq!(features.iter().count(), 6);
    }

    #[test]
    fn clients_are_known_by_what_they_say() {
        let check =
            |text: &str, expected| assert_eq!(Features::parse(text.as_bytes()).client(), expected, "{text}");
        check(
            "multiprocess+;swbreak+;hwbreak+;qRelocInsn+;fork-events+;vfork-events+;exec-events+;vContSupported+;\
             QThreadEvents+;no-resumed+;memory-tagging+;xmlRegisters=i386",
            Client::Gdb,
        );
        check("xmlRegisters=i386,arm,mips,arc;multiprocess+;fork-events+;vfork-events+", Client::Lldb);
        check("multiprocess+;swbreak+;hwbreak+;no-resumed+;xmlRegisters=i386", Client::Delve);
        check("", Client::Other);
    }
}
