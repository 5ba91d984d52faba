#include "console/pages/pages.h"

#include "console_app.h"
#include "console_app_css.h"
#include "console_charts.h"
#include "console_events.h"
#include "console_flow.h"
#include "console_graph.h"
#include "console_icon.h"
#include "console_index.h"
#include "console_live.h"
#include "console_parked.h"
#include "console_reconcile.h"
#include "console_stores.h"
#include "console_theme.h"
#include "console_ui.h"

namespace dovetail::console {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kScript = "text/javascript; charset=utf-8";

}  // namespace

const std::vector<PageFile>& page_files() {
  static const std::vector<PageFile> files{{"/", kHtml, kIndexHtml},
                                           {"/icon.svg", "image/svg+xml", kIconSvg},
                                           {"/app.css", "text/css; charset=utf-8", kAppCss},
                                           {"/theme.js", kScript, kThemeJs},
                                           {"/ui.js", kScript, kUiJs},
                                           {"/live.js", kScript, kLiveJs},
                                           {"/charts.js", kScript, kChartsJs},
                                           {"/graph.js", kScript, kGraphJs},
                                           {"/flow.js", kScript, kFlowJs},
                                           {"/parked.js", kScript, kParkedJs},
                                           {"/events.js", kScript, kEventsJs},
                                           {"/stores.js", kScript, kStoresJs},
                                           {"/reconcile.js", kScript, kReconcileJs},
                                           {"/app.js", kScript, kAppJs}};
  return files;
}

std::vector<Route> page_routes() {
  std::vector<Route> routes;
  for (const PageFile& file : page_files())
    routes.push_back({"GET", std::string(file.path), Role::nobody, Route::Kind::reads,
                      [&file](const Request&, const Identity&) {
                        Reply reply;
                        reply.status = 200;
                        reply.headers.push_back({"Content-Type", std::string(file.type)});
                        reply.body = file.text;
                        return reply;
                      },
                      Route::Where::listener});
  return routes;
}

}  // namespace dovetail::console
