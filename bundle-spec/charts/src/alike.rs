//! Refuses what the reader here and that of helm and Kubernetes would make other objects of. Theirs is a port of libyaml (go-yaml v2 in
//! sigs.k8s.io/yaml, YAML 1.1), ours reads YAML 1.2: what was judged has to be what a cluster gets.

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, Tag};

/// The most characters of a name in an error.
const SHOWN: usize = 80;

/// Whether a line is nothing but blanks or a comment.
pub(crate) fn is_empty(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// What may follow the dashes of a separator, to its line's end: nothing, or a comment behind spaces or tabs (k8s.io/apimachinery, util/yaml,
/// refuses most others; `---#` and `---` before another blank of Unicode it takes for a separator, and libyaml for text).
pub(crate) fn is_separator(rest: &str) -> bool {
    let rest = rest.trim_end_matches(['\r', '\n']);
    let behind = rest.trim_start_matches([' ', '\t']);
    behind.is_empty() || (behind.len() < rest.len() && behind.starts_with('#'))
}

/// go-yaml skips the first character of a line where its buffer begins with one of these, so that a comment becomes what it says.
const BOM: char = '\u{feff}';

/// Where the first line of a stream begins that is read otherwise there, and why.
pub(crate) fn lines(stream: &str) -> Result<(), (usize, String)> {
    let (mut at, mut has_ended) = (0, false);
    // As the first character of all it tells the encoding alone, to everyone.
    let stream = stream.strip_prefix(BOM).unwrap_or(stream);
    for (index, line) in stream.split_inclusive('\n').enumerate() {
        if let Some(problem) = problem_of(line, &mut has_ended) {
            return Err((at, format!("line {}: {problem}", index + 1)));
        }
        at += line.len();
    }
    Ok(())
}

/// `has_ended`: whether the document of the line has ended with `...`.
fn problem_of(line: &str, has_ended: &mut bool) -> Option<String> {
    let bare = line.strip_suffix("\r\n").unwrap_or(line);
    if let Some(found) = bare.chars().find(|c| matches!(*c, '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' | BOM)) {
        let code = u32::from(found);
        return Some(format!(
            "it has the character U+{code:04X}, after which helm and Kubernetes may read other lines than everyone else, so that it may \
             hide something; take it out, or write it as \"\\u{code:04X}\" in double quotes"
        ));
    }
    let behind = || {
        Some(
            "it stands behind `...`, where Kubernetes reads no more; begin a document with `---`, or take it out"
                .to_owned(),
        )
    };
    if let Some(rest) = line.strip_prefix("---") {
        *has_ended = false;
        let said = "it begins with `---` and is no separator, for which Kubernetes refuses it; write nothing but a comment behind the dashes";
        return (!is_separator(rest)).then(|| said.to_owned());
    }
    if *has_ended {
        return if is_empty(line) { None } else { behind() };
    }
    let rest = line.strip_prefix("...").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))?;
    *has_ended = true;
    if is_separator(rest) { None } else { behind() }
}

/// A list or a mapping that is being read.
#[derive(Clone, Copy)]
struct Open {
    is_mapping: bool,
    /// In `[]` or `{}`.
    is_flow: bool,
    /// Keys and values so far.
    nodes: usize,
}

impl Open {
    const fn new(is_mapping: bool, style: StructureStyle) -> Self {
        Self { is_mapping, is_flow: matches!(style, StructureStyle::Flow), nodes: 0 }
    }

    /// Whether the next node is a key.
    const fn awaits_key(self) -> bool {
        self.is_mapping && self.nodes.is_multiple_of(2)
    }
}

/// Why a document would be another there. It was read before: it is YAML, and within the limits.
pub(crate) fn nodes(document: &str) -> Result<(), String> {
    let mut options = granit_parser::options! { emit_anchor_events: true };
    options.set_emit_comments(false);
    let mut parser = Parser::new_from_str_with_options(document, options);
    let mut open: Vec<Open> = Vec::new();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| error.to_string())?;
        let inside = open.last().copied();
        let is_key = inside.is_some_and(Open::awaits_key);
        let problem = match &event {
            Event::Scalar(text, style, _, tag) => {
                of_tag(tag.as_deref(), is_key).or_else(|| of_scalar(text, *style, inside))
            }
            Event::SequenceStart(_, _, tag) | Event::MappingStart(_, _, tag) => of_tag(tag.as_deref(), is_key),
            Event::Alias(_) => is_key.then(|| "an alias stands for a key; write the key itself".to_owned()),
            Event::Anchor(_, name) => of_anchor(name),
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(format!("line {} of the document: {problem}", span.start.line().max(1)));
        }
        let opened = match event {
            Event::Scalar(..) | Event::Alias(_) => None,
            Event::SequenceStart(style, ..) => Some(Open::new(false, style)),
            Event::MappingStart(style, ..) => Some(Open::new(true, style)),
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                continue;
            }
            _ => continue,
        };
        if let Some(around) = open.last_mut() {
            around.nodes += 1;
        }
        open.extend(opened);
    }
    Ok(())
}

/// Theirs takes `<<` in where it stands, so that it wins over the keys before it; ours lets every other key win. In `{?a: b}` theirs
/// reads the key `a`.
fn of_scalar(text: &str, style: ScalarStyle, inside: Option<Open>) -> Option<String> {
    let inside = inside.filter(|_| style == ScalarStyle::Plain)?;
    if text == "<<" && inside.awaits_key() && inside.nodes > 0 {
        return Some(
            "a merge key (`<<`) stands behind another key, which helm replaces by it; write it first in its mapping"
                .to_owned(),
        );
    }
    (inside.is_flow && text.starts_with('?'))
        .then(|| format!("{} is a key with a mark before it for helm; put it in quotes", shown(text)))
}

/// `!null` and `!binary` are our reader's own, and mere texts there; a tag makes another key of a key.
fn of_tag(tag: Option<&Tag>, is_key: bool) -> Option<String> {
    let tag = tag?;
    let is_plain = matches!(tag.core_suffix(), Some("str" | "int" | "float" | "bool" | "map" | "seq"));
    (is_key || !is_plain)
        .then(|| format!("the tag {} is not read alike by everyone; leave it out", shown(&tag.original())))
}

/// `&a:b` is the anchor `a` there.
fn of_anchor(name: &str) -> Option<String> {
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    (!is_plain)
        .then(|| format!("the anchor &{} is another for helm; give it a name of letters and digits", shown(name)))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use crate::documents::{Room, read, read_within};

    /// What is said of a pod with this as its containers; none if it is read.
    fn wrong(containers: &str) -> Option<String> {
        let text = format!("---\n# Source: web/a.yaml\nkind: Pod\nspec:\n  containers:\n{containers}");
        let error = read(&text).err()?;
        assert_eq!(error.place, "web/a.yaml", "{}", error.problem);
        Some(error.problem)
    }

    #[test]
    fn a_line_that_only_go_sees_hides_no_container() {
        for end in ['\u{85}', '\u{2028}', '\u{2029}', '\r'] {
            let hidden = format!("  - {{name: a, image: good}}\n  # x{end}  - {{name: b, image: evil}}\n");
            let problem = wrong(&hidden).unwrap();
            assert!(problem.contains(&format!("line 7: it has the character U+{:04X}", u32::from(end))), "{problem}");
            // The comment of a separator, of which Go reads the rest where it is the first line.
            assert!(read(&format!("--- # x{end}kind: Pod\n")).is_err());
        }
        assert_eq!(wrong("  - {name: a, args: [\"a\\L\\u0085\"]}\n  # ä…\n"), None);
        let hidden = wrong("  # \u{feff}\n  # - {name: b, image: evil}\n  - {name: a, image: good}\n").unwrap();
        assert!(hidden.contains("line 6: it has the character U+FEFF"), "{hidden}");
        assert_eq!(read("\u{feff}a: 1\n").unwrap().len(), 1);
        assert!(read("a: 1\n---\n\u{feff}b: 1\n").is_err());
        assert_eq!(read("a: 1\r\n---\r\nb: |\r\n  x\r\n").unwrap().len(), 2);
    }

    #[test]
    fn a_merge_key_behind_others_and_what_looks_like_one_to_go_is_refused() {
        for late in [
            "  - {name: a, image: good, <<: {image: evil}}\n",
            "  - name: a\n    image: good\n    <<: {image: evil}\n",
            "  - {<<: {name: a}, <<: {image: evil}}\n",
            "  - &x {image: evil}\n  - {image: good, <<: *x}\n",
        ] {
            assert!(wrong(late).unwrap().contains("`<<`"), "{late}");
        }
        for other in ["  - {image: good, !!merge <<: {image: evil}}\n", "  - {image: good, ! \"<<\": {image: evil}}\n"]
        {
            assert!(wrong(other).is_some(), "{other}");
        }
        for first in [
            "  - {<<: {image: a}, name: b, image: good}\n",
            "  - &x\n    name: a\n    image: good\n  - <<: *x\n    name: b\n  - <<: [*x, {image: c}]\n    name: d\n",
            "  - {name: a, \"<<\": b, args: [<<, '<<']}\n",
        ] {
            assert_eq!(wrong(first), None, "{first}");
        }
    }

    #[test]
    fn tags_keys_and_anchors_that_go_reads_otherwise_are_refused() {
        for text in [
            "  - {name: a, image: !null evil}\n",
            "  - {name: a, image: !binary Z29vZA==}\n",
            "  - {name: a, !!binary aW1hZ2U=: evil}\n",
            "  - !own {name: a, image: evil}\n",
            "  - {name: a, image: good, ?image: evil}\n",
            "  - {name: &a image, *a : evil}\n",
            "  - {name: &a:b evil, image: good}\n",
        ] {
            assert!(wrong(text).is_some(), "{text}");
        }
        assert_eq!(wrong("  - {name: !!str 1, args: !!seq [&a-1 x, *a-1], \"?\": x}\n    \n  - ?x\n"), None);
    }

    #[test]
    fn dashes_and_dots_are_what_kubernetes_takes_them_for_or_refused() {
        let fine =
            "--- # one\na: 1\n---  \n---\t# x\nb: |\n  ---x\n  --- {a: 1}\n  ...\n  y\n...\n# end\n\n---\nc: ...x\n";
        assert_eq!(read(fine).unwrap().len(), 3);
        for text in [
            "kind: Pod\n---x: 1\nkind: ConfigMap\n",
            "--- {kind: Pod}\n",
            "a: 1\n--- |\n  x\n",
            "a: 1\n----\n",
            // The first line of a file of `crds/`, which helm hands over by itself: the key of a Pod for libyaml.
            "---#: '\n|\n'\nkind: Pod\n",
            "---\u{a0}#: '\n|\n'\nkind: Pod\n",
            "---\u{a0}\na: 1\n",
        ] {
            let problem = read(text).unwrap_err().problem;
            assert!(problem.contains("is no separator"), "{text}: {problem}");
        }
        for text in ["a: 1\n...\n[\n", "a: 1\n... b\n", "a: 1\n...\n# x\nb: 1\n"] {
            let problem = read(text).unwrap_err().problem;
            assert!(problem.contains("behind `...`"), "{text}: {problem}");
        }
    }

    #[test]
    fn what_is_there_already_and_texts_within_objects_are_read_as_they_are() {
        let text = "a: {x: 1, <<: {y: 2}}\nb: \"\u{2028}\"\n";
        assert!(read(text).is_err());
        for mut room in [Room::nested(), Room::default().as_it_is()] {
            assert_eq!(read_within(text, &mut room).unwrap()[0]["a"], serde_json::json!({"x": 1, "y": 2}));
        }
    }
}
