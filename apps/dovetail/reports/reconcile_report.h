// A comparison of two stores, as text, as JSON, and as a page that an auditor can keep.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "assembly/reconcile.h"
#include "commands/output.h"

namespace dovetail::app {

// With "digest": the SHA-256 of the document without it, see digested_text().
Json json_of(const assembly::ReconcileReport& report, const assembly::ReconcileRequest& request);

// One line: what was found.
std::string verdict_of(const assembly::ReconcileReport& report);
// For a terminal.
std::string text_of(const assembly::ReconcileReport& report, const Json& document);

// Self-contained: no script runs, and nothing is loaded. It prints on one page and holds the whole
// document. The page shows its first findings.
std::string page_of(const assembly::ReconcileReport& report, const Json& document);
// The file is whole or not there. unavailable: it cannot be written.
Status write_page(const std::filesystem::path& file, const std::string& page);

}  // namespace dovetail::app
