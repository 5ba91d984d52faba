import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.UUID;

/**
 * Takes an order and publishes an event with it, and waits for the server once, with pgjdbc.
 *
 * <pre>java -cp postgresql.jar OneTrip.java 'jdbc:postgresql://localhost/shop?user=shop' statement|pipeline
 * ORDER-ID PRODUCT QUANTITY</pre>
 *
 * ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it counts once.
 */
public class OneTrip {
  /** An order that is there already brings no row, hence no event. */
  static final String ONE_STATEMENT =
      "WITH placed AS ("
          + " INSERT INTO orders (id, product, quantity) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING *)"
          + " INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload)"
          + " SELECT 'orders', id::text, 'OrderPlaced', convert_to(?::jsonb::text, 'UTF8') FROM placed";

  /** pgjdbc sends statements between semicolons together, each with its own parameters. */
  static final String PIPELINE =
      "INSERT INTO orders (id, product, quantity) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;"
          + " SELECT dovetail.publish('orders', ?, 'OrderPlaced', ?::jsonb, id => ?)";

  static void inOneStatement(Connection connection, UUID orderId, String product, int quantity) throws SQLException {
    try (PreparedStatement place = connection.prepareStatement(ONE_STATEMENT)) {
      place.setObject(1, orderId);
      place.setString(2, product);
      place.setInt(3, quantity);
      place.setString(4, json(product, quantity));
      place.executeUpdate();
    }
  }

  static void inAPipeline(Connection connection, UUID orderId, String product, int quantity) throws SQLException {
    try (PreparedStatement place = connection.prepareStatement(PIPELINE)) {
      place.setObject(1, orderId);
      place.setString(2, product);
      place.setInt(3, quantity);
      place.setString(4, orderId.toString()); // the key: order is kept along it
      place.setString(5, json(product, quantity));
      place.setObject(6, orderId); // the event's id: published again, it is there once
      place.execute();
    }
  }

  /** Use a library of yours. */
  static String json(String product, int quantity) {
    String escaped = product.replace("\\", "\\\\").replace("\"", "\\\"");
    return "{\"product\": \"" + escaped + "\", \"quantity\": " + quantity + "}";
  }

  public static void main(String[] args) throws Exception {
    UUID orderId = UUID.fromString(args[2]);
    try (Connection connection = DriverManager.getConnection(args[0])) { // each execution is a transaction
      if (args[1].equals("pipeline")) {
        inAPipeline(connection, orderId, args[3], Integer.parseInt(args[4]));
      } else {
        inOneStatement(connection, orderId, args[3], Integer.parseInt(args[4]));
      }
    }
    System.out.println("the order is placed");
  }
}
