"""The command line: parse, call one operation, render its report, map errors to exit codes."""
