#include "webhook/signature.h"

#include <gtest/gtest.h>

namespace dovetail::http {
namespace {

// The example of the Standard Webhooks specification's own libraries.
constexpr std::string_view kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr std::string_view kId = "msg_p5jXN8AQM9LWM0D4loKWxJek";
constexpr std::string_view kTimestamp = "1614265330";
constexpr std::string_view kBody = "{\"test\": 2432232314}";
constexpr std::string_view kSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

TEST(Signature, IsTheOneOfTheSpecification) {
  auto secrets = WebhookSecrets::parse(kSecret);
  ASSERT_TRUE(secrets);
  EXPECT_EQ(secrets->sign(kId, kTimestamp, kBody), kSignature);
  EXPECT_EQ(secrets->sign(kId, kTimestamp, kBody), kSignature) << "a key is used many times";
}

TEST(Signature, IsVerifiedAmongOthersAndByAnySecret) {
  const std::string other = "whsec_" + to_base64(std::string(32, 'k'));
  auto both = WebhookSecrets::parse(other + "  " + std::string(kSecret));
  ASSERT_TRUE(both);
  const std::string signatures = "v1,bm8= v1a,xyz " + std::string(kSignature);
  EXPECT_TRUE(both->verify(signatures, kId, kTimestamp, kBody));
  EXPECT_TRUE(both->verify(both->sign(kId, kTimestamp, kBody), kId, kTimestamp, kBody));
}

TEST(Signature, FailsForAnyChange) {
  auto secrets = WebhookSecrets::parse(kSecret);
  ASSERT_TRUE(secrets);
  EXPECT_FALSE(secrets->verify(kSignature, "msg_other", kTimestamp, kBody));
  EXPECT_FALSE(secrets->verify(kSignature, kId, "1614265331", kBody));
  EXPECT_FALSE(secrets->verify(kSignature, kId, kTimestamp, "{}"));
  EXPECT_FALSE(secrets->verify(kSignature.substr(3), kId, kTimestamp, kBody));
  EXPECT_FALSE(secrets->verify("", kId, kTimestamp, kBody));
  EXPECT_FALSE(secrets->verify("v1,", kId, kTimestamp, kBody));
}

TEST(Signature, AMalformedSecretIsRefusedAndNotShown) {
  for (const std::string& text :
       {std::string("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), std::string("whsec_"),
        std::string("whsec_short"), std::string("whsec_!!!!9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        "whsec_" + to_base64(std::string(65, 'k'))}) {
    const auto secrets = WebhookSecrets::parse(text);
    ASSERT_FALSE(secrets) << text;
    EXPECT_EQ(secrets.error().code, Errc::rejected);
    if (text.size() <= 8) continue;
    EXPECT_EQ(secrets.error().text.find(text.substr(7)), std::string::npos);
  }
  const auto none = WebhookSecrets::parse("");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}

}  // namespace
}  // namespace dovetail::http
