-- The table of the order services, and their login: it may publish and use its own table, and nothing else.
-- After `dovetail init --roles`, by a role that may create roles:
--   psql -v login=shop -f orders.sql
CREATE TABLE orders (
  id       uuid PRIMARY KEY,   -- chosen by the customer's side: the same order, sent again, is the same order
  product  text NOT NULL,
  quantity int NOT NULL,
  shipped  boolean NOT NULL DEFAULT false
);
CREATE ROLE :"login" LOGIN;
GRANT dovetail_app TO :"login";
GRANT SELECT, INSERT, UPDATE ON orders TO :"login";
