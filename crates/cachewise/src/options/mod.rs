//! Options that several commands share.

pub mod fail_if;
mod flame;
mod labels;
mod output;
mod path_list;
mod rate;
mod select;

pub use flame::{OpenStackFiles, StackFiles};
pub use labels::{FileLabels, LabelFile};
pub use output::{
    Color, Columns, Output, any_columns, any_ids, drop_columns, file_columns, measurement_columns,
    parse_columns, parse_pid, report_columns, size_columns, system_columns,
};
pub use path_list::{PathList, SeparatedPathList};
pub use rate::parse_rate;
pub use select::Select;
