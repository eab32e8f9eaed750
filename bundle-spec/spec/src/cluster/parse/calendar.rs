//! Calendar expressions of systemd (systemd.time(7), "Calendar events"): weekdays, a date, a time and a time zone, each of which may be
//! left out. What this refuses, systemd refuses, but for years of two digits, fractions of a second, and time zones other
//! than UTC: a host may not know them, and would find out when the cluster is there.

use super::values::not_a;

const WORDS: [&str; 11] = [
    "minutely",
    "hourly",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "semiannually",
    "semi-annually",
    "biannually",
    "annually",
    "yearly",
];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const WANTED: &str = "a calendar expression of systemd, like daily, Sat 03:00 or *-*-* 03:00:00 (systemd.time(7))";
const MOST: usize = 128;

pub(in crate::cluster) fn calendar(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b" *-/:.,~_+".contains(&b));
    if plain && text.len() <= MOST && is_calendar(text) { Ok(text.to_owned()) } else { Err(not_a(text, WANTED)) }
}

fn is_calendar(text: &str) -> bool {
    let mut tokens: Vec<&str> = text.split_whitespace().collect();
    // A word for the whole may have it, too.
    if tokens.len() > 1 && tokens.last() == Some(&"UTC") {
        tokens.pop();
    }
    if let [word] = tokens.as_slice()
        && WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
    {
        return true;
    }
    let parts: [fn(&str) -> bool; 3] = [are_days, is_date, is_time];
    let mut next = tokens.iter().peekable();
    for part in parts {
        next.next_if(|token| part(token));
    }
    !tokens.is_empty() && next.peek().is_none()
}

/// `Mon`, `Mon,Wed`, `Mon..Fri`.
fn are_days(token: &str) -> bool {
    let day = |name: &str| {
        let short = |full: &&str| full[..3].eq_ignore_ascii_case(name) || full.eq_ignore_ascii_case(name);
        DAYS.iter().any(short)
    };
    token.split(',').filter(|part| !part.is_empty()).all(|part| match part.split_once("..") {
        Some((first, last)) => day(first) && day(last),
        None => day(part),
    }) && token.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// `*-*-*`, `2026-11-26`, `*-1/3-1`, `11-26`; `~` counts days from the end of the month.
fn is_date(token: &str) -> bool {
    let (first, day) = match token.rsplit_once('~') {
        Some((first, day)) => (first, day),
        None => match token.rsplit_once('-') {
            Some((first, day)) => (first, day),
            None => return false,
        },
    };
    let (year, month) = match first.rsplit_once('-') {
        Some((year, month)) => (Some(year), month),
        None => (None, first),
    };
    year.is_none_or(|year| is_component(year, 1970, 2199)) && is_component(month, 1, 12) && is_component(day, 1, 31)
}

/// `03:00`, `*:0/15`, `8..17:30:00`.
fn is_time(token: &str) -> bool {
    let parts: Vec<&str> = token.split(':').collect();
    match parts.as_slice() {
        [hour, minute] => is_component(hour, 0, 23) && is_component(minute, 0, 59),
        [hour, minute, second] => {
            // Fractions of a second are of no use to anybody here.
            is_component(hour, 0, 23) && is_component(minute, 0, 59) && is_component(second, 0, 59)
        }
        _ => false,
    }
}

/// `*`, a list of numbers and ranges, each with a repetition.
fn is_component(text: &str, least: u32, most: u32) -> bool {
    let number = |text: &str| {
        let digits = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u32>().is_ok_and(|number| digits && (least..=most).contains(&number))
    };
    text.split(',').all(|part| {
        let (part, step) = part.split_once('/').map_or((part, None), |(part, step)| (part, Some(step)));
        let step = step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| step > 0 && step <= most));
        let value = match part.split_once("..") {
            Some((first, last)) => {
                number(first) && number(last) && first.parse::<u32>().ok() <= last.parse::<u32>().ok()
            }
            None => part == "*" || number(part),
        };
        step && value
    })
}

#[cfg(test)]
mod tests {
    use super::calendar;

    /// Each was given to `systemd-analyze calendar` of systemd 252.
    #[test]
    fn what_systemd_takes_is_taken_and_what_it_refuses_is_not() {
        for good in [
            "daily",
            "Weekly",
            "*:0/30",
            "03:00",
            "*-*-* 03:00:00",
            "Sat 03:00",
            "Mon..Fri 8..17:00",
            "Mon,Wed 22:30",
            "monday 01:00 UTC",
            "2026-11-26",
            "*-1/3-1 02:00",
            "11-26 04:00",
            "*-02~03",
            "Sun *-*-1..7 02:00:00",
            "daily UTC",
            "*-*-* 0,6,12,18:00:00",
            "Mon",
        ] {
            assert_eq!(calendar(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            " ",
            "never",
            "daily Europe/Berln",
            "tuesdayish",
            "25:00",
            "03:60",
            "*-13-01",
            "*-*-32",
            "03:00 Mon",
            "0 3 * * *",
            "@daily",
            "every day",
            "17..8:00",
            "*-*-* 03",
            "Mon..Blue",
            "*/0:00",
        ] {
            assert!(calendar(bad).is_err(), "{bad}");
        }
    }
}
