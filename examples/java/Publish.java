import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.UUID;

/**
 * Takes an order and publishes an event with it, with pgjdbc and nothing of dovetail but its SQL function.
 *
 * <pre>java -cp postgresql.jar Publish.java 'jdbc:postgresql://localhost/shop?user=shop' ORDER-ID PRODUCT QUANTITY</pre>
 *
 * ORDER-ID is a UUID that the customer's side chose. Without an answer it sends the order again: it counts once.
 */
public class Publish {
  /** Any encoding of yours will do: bytes go out as they are. */
  static byte[] encode(String product, int quantity) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeUTF(product);
    out.writeInt(quantity);
    return bytes.toByteArray();
  }

  static void insertOrder(Connection connection, UUID orderId, String product, int quantity) throws SQLException {
    try (PreparedStatement insert = connection.prepareStatement(
        "INSERT INTO orders (id, product, quantity) VALUES (?, ?, ?) ON CONFLICT DO NOTHING")) {
      insert.setObject(1, orderId);
      insert.setString(2, product);
      insert.setInt(3, quantity);
      insert.executeUpdate();
    }
  }

  static void publish(Connection connection, UUID orderId, byte[] payload) throws SQLException {
    try (PreparedStatement publish = connection.prepareStatement(
        "SELECT dovetail.publish('orders', ?, 'OrderPlaced', ?::bytea, headers => ?::jsonb, id => ?,"
            + " content_type => 'application/x-order')")) {
      publish.setString(1, orderId.toString()); // the key: order is kept along it
      publish.setBytes(2, payload);
      publish.setString(3, "{\"traceparent\": \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}");
      publish.setObject(4, orderId); // the event's id: published again, it is there once
      publish.execute();
    }
  }

  static void checkStock(Connection connection, String product) throws SQLException {
    try (PreparedStatement select =
        connection.prepareStatement("SELECT sum(quantity) FROM orders WHERE product = ?")) {
      select.setString(1, product);
      ResultSet ordered = select.executeQuery();
      ordered.next();
      if (ordered.getLong(1) > 100) throw new IllegalStateException("only 100 of " + product + " can be ordered");
    }
  }

  static void placeOrder(Connection connection, UUID orderId, String product, int quantity) throws Exception {
    connection.setAutoCommit(false); // one transaction for what follows
    try {
      // The order first: it locks its row, and events of one order go out in the order of these locks.
      insertOrder(connection, orderId, product, quantity);
      publish(connection, orderId, encode(product, quantity));
      checkStock(connection, product);
      connection.commit(); // order and event, together
    } catch (Exception e) {
      connection.rollback(); // neither
      throw e;
    }
  }

  public static void main(String[] args) throws Exception {
    UUID orderId = UUID.fromString(args[1]);
    try (Connection connection = DriverManager.getConnection(args[0])) {
      placeOrder(connection, orderId, args[2], Integer.parseInt(args[3]));
    }
    System.out.println("the order is placed");
  }
}
