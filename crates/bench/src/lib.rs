//! Makes traffic, measures, reports.
